//! Refuses to write a record with another key than it was begun with: what this process signs, the
//! others would take for forged, and the other way round.

use crate::{
    open_error::OpenError,
    seal::Seal,
    store::{Connection, values},
};

/// Names the signed form.
const FORM: &str = "haft-key-check-1";

/// Compares the key with the one the record was begun with, or begins the record with it.
pub(crate) async fn check(
    connection: &mut dyn Connection,
    key: &[u8; 32],
) -> Result<(), OpenError> {
    let mark = Seal::new(FORM, key).sign();
    connection
        .execute(
            "INSERT INTO signing_key (id, mark) VALUES (1, ?1) ON CONFLICT DO NOTHING",
            values![&mark],
        )
        .await?;
    let begun_with: Option<Vec<u8>> = connection
        .scalar("SELECT mark FROM signing_key WHERE id = 1", &[])
        .await?;
    match begun_with {
        Some(begun_with) if begun_with == mark => Ok(()),
        Some(_) | None => Err(OpenError::OtherKey),
    }
}
