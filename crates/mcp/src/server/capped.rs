//! Limits how many requests one client may have in flight. A request takes a task and memory before
//! anything looks at it, and nothing else slows down a client on a pipe.

use std::borrow::Cow;

use rmcp::{
    ErrorData, RoleServer,
    model::{ClientRequest, ProtocolVersion},
    service::{NotificationContext, RequestContext, Service, ServiceRole},
};
use tokio::sync::Semaphore;

use super::connection::Connection;

/// How many requests of one connection are served at once; the next is refused.
pub const REQUESTS_IN_FLIGHT: usize = 1_024;

/// A connection with a limited number of requests in flight. Messages that are not requests
/// (cancels, answers) always get through, otherwise nothing could ever make room.
pub(super) struct CappedConnection {
    connection: Connection,
    places: Semaphore,
    most: usize,
}

impl CappedConnection {
    pub(super) fn new(connection: Connection, most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            connection,
            places: Semaphore::new(most),
            most,
        }
    }
}

impl Service<RoleServer> for CappedConnection {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<<RoleServer as ServiceRole>::Resp, ErrorData> {
        let Ok(_place) = self.places.try_acquire() else {
            return Err(too_many(self.most));
        };
        self.connection.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: <RoleServer as ServiceRole>::PeerNot,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let connection = &self.connection;
        connection.handle_notification(notification, context).await
    }

    fn get_info(&self) -> <RoleServer as ServiceRole>::Info {
        Service::get_info(&self.connection)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.connection)
    }
}

fn too_many(most: usize) -> ErrorData {
    let message = format!(
        "this connection already has {most} requests in flight, which is the limit; Haft did not look at this one. Send it again when some are answered (`requests_in_flight` under [mcp])"
    );
    ErrorData::internal_error(message, None)
}
