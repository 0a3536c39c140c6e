//! Checks a stream on its way, wherever it comes from: every row follows the one before it in its
//! chain, nothing of it can hurt whoever reads it, and the ends are those that were signed.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{Principal, TenantId, host::Verification};

use super::{
    MAX_LINE_BYTES, MAX_NUMBER, MAX_WRITERS, TransferBegin, TransferEnd, TransferError, TransferRow,
};
use crate::{
    body,
    chain::{ChainName, Link, Verifier},
    convert,
    recorded_call::{self, FIRST_PART, LAST_PART},
    row::StoredPrincipal,
};

/// The end of the year 9999, in microseconds: times are shown to people.
const MAX_TIME: i64 = 253_402_300_799_999_999;

/// The largest part of a call. Evidence comes after its last row, which is 2³⁰.
const MAX_PART: i64 = (1 << 31) - 1;

/// What was seen of a stream so far.
pub(crate) struct TransferCheck {
    tenant: TenantId,
    chains: BTreeMap<String, Verifier>,
    position: i64,
    rows: u64,
    /// Who asked for the row before, because most rows have the same.
    asked: Option<(Arc<str>, Arc<Principal>)>,
}

impl TransferCheck {
    /// Begins a stream.
    pub(crate) fn new(begin: &TransferBegin) -> Result<Self, TransferError> {
        let mut chains = BTreeMap::new();
        for (writer, head) in &begin.starts {
            if i64::try_from(head.sequence).is_ok_and(|number| number <= MAX_NUMBER) {
                chains.insert(writer.clone(), Verifier::after(*head, 0));
            }
        }
        if chains.len() != begin.starts.len() || chains.len() > MAX_WRITERS {
            return Err(TransferError::Altered("its chains have no beginning"));
        }
        Ok(Self {
            tenant: begin.tenant.clone(),
            chains,
            position: 0,
            rows: 0,
            asked: None,
        })
    }

    /// Checks the next row; returns who asked.
    pub(crate) fn row(&mut self, row: &TransferRow) -> Result<Arc<Principal>, TransferError> {
        let position = u64::try_from(row.position).unwrap_or(0);
        let broken = |reason: &str| TransferError::Broken {
            position,
            reason: reason.to_owned(),
        };
        if row.position <= self.position || row.position > MAX_NUMBER {
            return Err(broken("it is not in its place"));
        }
        let link = Link {
            chain: ChainName {
                tenant: self.tenant.as_str(),
                writer: &row.writer,
            },
            sequence: row.sequence,
            call: row.call.as_bytes(),
            part: row.part,
            listed: row.listed,
            principal: &row.principal,
            at: row.at,
            terminal: row.terminal.unwrap_or(0),
            form: row.form,
            body: &row.body,
        };
        if !self.chains.contains_key(&*row.writer) {
            if self.chains.len() >= MAX_WRITERS {
                return Err(broken("there are too many writers"));
            }
            self.chains.insert(row.writer.to_string(), Verifier::new());
        }
        if let Some(chain) = self.chains.get_mut(&*row.writer)
            && let Err(Verification::Broken { reason, .. }) = chain.next(position, &link, &row.hash)
        {
            return Err(TransferError::Broken { position, reason });
        }
        if row.part == FIRST_PART && row.listed != row.position {
            return Err(broken("it was moved after it was written"));
        }
        if !(FIRST_PART..=MAX_PART).contains(&row.part) {
            return Err(broken("it has more parts than a call can have"));
        }
        if row.part != FIRST_PART && row.terminal.is_some() != (row.part == LAST_PART) {
            return Err(broken("its outcome is not at its end"));
        }
        if !(0..=MAX_TIME).contains(&row.at) {
            return Err(broken("its time is not valid"));
        }
        if row
            .terminal
            .is_some_and(|number| recorded_call::terminal_from(number).is_none())
        {
            return Err(broken("its outcome is not a known one"));
        }
        match body::text_bytes(row.form, &row.body) {
            None => return Err(broken("another version wrote it")),
            // A few bytes can be compressed that fill the memory of whoever reads them.
            Some(bytes) if bytes as u64 > MAX_LINE_BYTES => {
                return Err(broken("it is larger than any row"));
            }
            Some(_) => {}
        }
        let asked = self.asked(&row.principal);
        let asked = asked.ok_or_else(|| broken("it is not clear who asked"))?;
        self.position = row.position;
        self.rows += 1;
        Ok(asked)
    }

    /// Who asked, if it is somebody of this tenant.
    fn asked(&mut self, stored: &Arc<str>) -> Option<Arc<Principal>> {
        if let Some((last, principal)) = &self.asked
            && last == stored
        {
            return Some(Arc::clone(principal));
        }
        let parsed: StoredPrincipal = serde_json::from_str(stored).ok()?;
        let principal = convert::principal_from(&parsed)?;
        let principal = Some(principal).filter(|principal| principal.tenant == self.tenant)?;
        let principal = Arc::new(principal);
        self.asked = Some((Arc::clone(stored), Arc::clone(&principal)));
        Some(principal)
    }

    /// Checks the end: every chain ends where it says, and the signatures if there is a key.
    pub(crate) fn end(
        &self,
        end: &TransferEnd,
        key: Option<&[u8; 32]>,
    ) -> Result<(), TransferError> {
        if end.rows != self.rows {
            return Err(TransferError::Altered("rows are missing, or added"));
        }
        if end.chains.len() != self.chains.len() {
            return Err(TransferError::Altered(
                "the end of a chain is missing, or added",
            ));
        }
        for signed in &end.chains {
            let reached = self.chains.get(&signed.writer).map(Verifier::head);
            if reached != Some(signed.head) {
                return Err(TransferError::Altered(
                    "a chain does not end where it was signed",
                ));
            }
            let chain = ChainName {
                tenant: self.tenant.as_str(),
                writer: &signed.writer,
            };
            if let Some(key) = key
                && !signed.head.is_signed(chain, key, &signed.mac)
            {
                return Err(TransferError::OtherKey);
            }
        }
        Ok(())
    }
}
