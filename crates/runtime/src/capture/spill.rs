//! Stores output that does not fit into a result as an artifact, up to the artifact cap.
//!
//! If the store fails, the artifact is lost but not the call: the outcome then says that the whole
//! output could not be kept.

use std::sync::Arc;

use haft_contract::host::{ArtifactId, ArtifactStore, WriteArtifact};

/// Small chunks are buffered, so that a chatty command does not cost a write per line.
const GATHER_BYTES: usize = 64 * 1024;

/// The spilled output of one call.
pub(super) struct Spill {
    artifacts: Arc<dyn ArtifactStore>,
    left: u64,
    gathered: Vec<u8>,
    state: State,
}

enum State {
    Idle,
    Open(Box<dyn WriteArtifact>),
    Failed,
}

impl Spill {
    pub(super) fn new(artifacts: Arc<dyn ArtifactStore>, artifact_bytes: u64) -> Self {
        Self {
            artifacts,
            left: artifact_bytes,
            gathered: Vec::new(),
            state: State::Idle,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    /// Starts the artifact with the output so far.
    pub(super) async fn start(&mut self, before: &[&[u8]]) {
        self.state = match self.artifacts.create().await {
            Ok(writer) => State::Open(writer),
            Err(error) => {
                tracing::warn!(%error, "output cannot be kept");
                State::Failed
            }
        };
        for bytes in before {
            self.write(bytes).await;
        }
    }

    /// Adds bytes, if the artifact has been started and has room.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        if !matches!(self.state, State::Open(_)) {
            return;
        }
        let room = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.left -= room as u64;
        self.gathered
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
        if self.gathered.len() >= GATHER_BYTES {
            self.write_out().await;
        }
    }

    /// Makes the artifact durable.
    pub(super) async fn finish(&mut self) -> Option<ArtifactId> {
        self.write_out().await;
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle | State::Failed => None,
            State::Open(writer) => match writer.finish().await {
                Ok(id) => Some(id),
                Err(error) => {
                    tracing::warn!(%error, "output cannot be kept");
                    None
                }
            },
        }
    }

    async fn write_out(&mut self) {
        if let State::Open(writer) = &mut self.state
            && let Err(error) = writer.write(&self.gathered).await
        {
            tracing::warn!(%error, "output cannot be kept");
            self.state = State::Failed;
        }
        self.gathered.clear();
    }
}
