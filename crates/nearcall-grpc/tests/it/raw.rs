//! Requests that no library of gRPC sends.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

/// What came back.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) http: u16,
    /// The code of gRPC, from the headers or the trailers.
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: HeaderMap,
}

/// Returns a message as it travels.
pub(crate) fn framed(compressed: bool, message: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(message.len()).unwrap();
    [&[u8::from(compressed)][..], &bytes.to_be_bytes(), message].concat()
}

/// Sends a request with these headers beside, or in the place of, those of gRPC.
pub(crate) async fn call(
    place: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Result<Raw, h2::Error> {
    let (answer, mut send, _connection) = begin(place, path, headers).await?;
    // The peer may have ended the call before it was read.
    let _ = send.send_data(Bytes::from(body), true);
    read(answer.await?).await
}

/// Ends a connection when it is dropped.
pub(crate) struct Connection(tokio::task::AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins a request with these headers. Its messages are to be sent.
pub(crate) async fn begin(
    place: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<(h2::client::ResponseFuture, h2::SendStream<Bytes>, Connection), h2::Error> {
    let stream = tokio::net::TcpStream::connect(place).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await?;
    let connection = Connection(tokio::spawn(connection).abort_handle());
    let mut client = client.ready().await?;
    let mut request = Request::post(format!("http://{place}{path}"));
    let usual = [("te", "trailers"), ("content-type", "application/grpc")];
    for (key, value) in usual.iter().filter(|(key, _)| !headers.iter().any(|it| it.0 == *key)) {
        request = request.header(*key, *value);
    }
    for (key, value) in headers {
        request = request.header(*key, *value);
    }
    let (answer, send) = client.send_request(request.body(()).unwrap(), false)?;
    Ok((answer, send, connection))
}

async fn read(answer: Response<h2::RecvStream>) -> Result<Raw, h2::Error> {
    let (parts, mut received) = answer.into_parts();
    let mut body = Vec::new();
    while let Some(data) = received.data().await {
        let data = data?;
        received.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let trailers = received.trailers().await?.unwrap_or_default();
    let status = [&trailers, &parts.headers].into_iter().find_map(tonic::Status::from_header_map);
    Ok(Raw {
        http: parts.status.as_u16(),
        code: status.as_ref().map(|status| status.code().into()),
        text: status.map(|status| status.message().to_owned()).unwrap_or_default(),
        body,
        headers: parts.headers,
    })
}
