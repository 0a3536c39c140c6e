//! Closures as implementations of the approver and listener traits.

use std::future::Future;

use haft_contract::{
    event::{EventSink, RecordedEvent},
    host::{ApprovalAnswer, ApprovalRequest, Approver},
};

pub(crate) struct AskWith<F>(pub(crate) F);

impl<F, A> Approver for AskWith<F>
where
    F: Fn(ApprovalRequest) -> A + Send + Sync + 'static,
    A: Future<Output = ApprovalAnswer> + Send,
{
    fn ask(&self, request: ApprovalRequest) -> impl Future<Output = ApprovalAnswer> + Send {
        (self.0)(request)
    }
}

pub(crate) struct ListenWith<F>(pub(crate) F);

impl<F: Fn(&RecordedEvent) + Send + Sync> EventSink for ListenWith<F> {
    fn happened(&self, happened: &RecordedEvent) {
        (self.0)(happened);
    }
}
