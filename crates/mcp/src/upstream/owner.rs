//! Whose credential a mounted server is used with, and so whose calls may use it.
//!
//! A mount has one credential. If two people log in to the same server, it is mounted twice, each
//! time with its own connection, pins and process; neither of them ever reaches it as the other.

use haft_contract::{
    Principal,
    identity::{TenantId, UserId},
};

/// The owner of the credential a server is mounted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialOwner {
    /// The operator of a tenant, who configured it for everybody in that tenant.
    Tenant(TenantId),
    /// One user, who logged in to the server.
    User {
        /// The user's tenant.
        tenant: TenantId,
        /// The user.
        user: UserId,
    },
}

impl CredentialOwner {
    /// The operator of this machine.
    pub fn local() -> Self {
        Self::Tenant(TenantId::local())
    }

    /// The tenant it is for.
    pub(crate) fn tenant(&self) -> &TenantId {
        match self {
            Self::Tenant(tenant) | Self::User { tenant, .. } => tenant,
        }
    }

    /// Why calls of a principal may not use this credential; none if they may.
    pub(crate) fn refuses(&self, principal: &Principal) -> Option<&'static str> {
        match self {
            Self::Tenant(tenant) | Self::User { tenant, .. } if *tenant != principal.tenant => {
                Some("it is mounted for another tenant")
            }
            Self::User { user, .. } if *user != principal.user => {
                Some("it is mounted with the login of another user")
            }
            Self::Tenant(_) | Self::User { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_testkit::principal;

    use super::*;

    fn of(tenant: &str, user: &str) -> (TenantId, UserId) {
        (
            TenantId::parse(tenant).unwrap(),
            UserId::parse(user).unwrap(),
        )
    }

    #[test]
    fn a_login_is_for_its_user_and_a_configured_credential_for_its_tenant() {
        let ada = |tenant: &str, name: &str| {
            let (tenant, user) = of(tenant, name);
            Principal {
                tenant,
                user,
                ..(*principal()).clone()
            }
        };
        let (tenant, user) = of("acme", "ada");
        let configured = CredentialOwner::Tenant(tenant.clone());
        let login = CredentialOwner::User { tenant, user };
        for (principal, to_configured, to_login) in [
            (ada("acme", "ada"), true, true),
            (ada("acme", "bob"), true, false),
            (ada("beta", "ada"), false, false),
        ] {
            assert_eq!(configured.refuses(&principal).is_none(), to_configured);
            assert_eq!(login.refuses(&principal).is_none(), to_login);
        }
    }
}
