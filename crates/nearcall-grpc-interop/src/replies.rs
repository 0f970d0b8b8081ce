//! What the test service answers, whatever serves it.

use nearcall::{Code, Status};

use crate::testing::{
    EchoStatus, Payload, PayloadType, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingOutputCallResponse,
};

/// Returns a payload of `size` zeros.
pub(crate) fn zeros(size: i32) -> Result<Option<Payload>, Status> {
    let size = usize::try_from(size);
    let size = size.map_err(|_| Status::invalid_argument("a size is negative"))?;
    Ok(Some(Payload { r#type: PayloadType::Compressable.into(), body: vec![0; size].into() }))
}

/// Ends a call whose request asks for an error.
pub(crate) fn echo(status: Option<&EchoStatus>) -> Result<(), Status> {
    match status {
        Some(status) if status.code != 0 => {
            Err(Status::new(code(status.code), status.message.clone()))
        }
        _ => Ok(()),
    }
}

/// Returns the code with a number of gRPC; for a number without a code, what gRPC demands.
pub(crate) fn code(number: i32) -> Code {
    u16::try_from(number).ok().and_then(Code::from_number).unwrap_or(Code::Unknown)
}

/// Answers `UnaryCall`.
pub(crate) fn unary(request: &SimpleRequest) -> Result<SimpleResponse, Status> {
    echo(request.response_status.as_ref())?;
    Ok(SimpleResponse { payload: zeros(request.response_size)?, ..Default::default() })
}

/// Answers `CacheableUnaryCall`: what may be kept has to depend on the request alone.
pub(crate) fn cacheable(request: SimpleRequest) -> SimpleResponse {
    SimpleResponse { payload: request.payload, ..Default::default() }
}

/// Waits as long as one reply of a stream demands, and returns it.
pub(crate) async fn item(
    parameters: &ResponseParameters,
) -> Result<StreamingOutputCallResponse, Status> {
    if let Some(interval) = u64::try_from(parameters.interval_us).ok().filter(|us| *us > 0) {
        tokio::time::sleep(std::time::Duration::from_micros(interval)).await;
    }
    Ok(StreamingOutputCallResponse { payload: zeros(parameters.size)?, ..Default::default() })
}

/// Adds the size of one request to the sum of `StreamingInputCall`.
pub(crate) fn add(sum: i32, payload: Option<&Payload>) -> i32 {
    let bytes = payload.map_or(0, |payload| payload.body.len());
    sum.saturating_add(i32::try_from(bytes).unwrap_or(i32::MAX))
}
