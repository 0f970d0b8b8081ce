//! The client in Rust: does what the lines of its input say, by the generated callers that wait.
//!
//! **Invariants:** each line is answered by one line.
//! **Not here:** what the lines mean (`cases.rs`), the async callers (`nearcall_client.rs`).

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use nearcall::client::{Attachment, Cause};
use nearcall::stream::{ReplyStream, RequestStream};
use nearcall::{BadAddress, CallOptions, Client, Status};
use nearcall_os::clock;

use super::PATIENCE;
use super::notes::{Note, NotesCaller, SleepRequest};
use crate::replies::zeros;
use crate::testing::{
    EchoStatus, Empty, Payload, ResponseParameters, SimpleRequest, StreamingInputCallRequest,
    StreamingOutputCallRequest, StreamingOutputCallResponse, TestServiceCaller,
    UnimplementedServiceCaller,
};
use crate::{CACHE_CONTROL, ECHO_INITIAL, ECHO_TRAILING};

type Requests = RequestStream<StreamingOutputCallRequest, ()>;
type Replies = ReplyStream<StreamingOutputCallResponse>;

struct Calls {
    address: String,
    client: Client,
    service: TestServiceCaller,
    unimplemented: UnimplementedServiceCaller,
    notes: NotesCaller,
    attachment: Option<Attachment>,
}

/// Calls the server at `address` until the input of this process ends.
///
/// # Errors
///
/// `address` cannot be parsed, or the output has ended.
pub(super) fn run(address: &str) -> anyhow::Result<()> {
    let mut calls = Calls::new(address)?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        super::print(&match calls.execute(&words) {
            Ok(result) if result.is_empty() => "OK".to_owned(),
            Ok(result) => format!("OK {result}"),
            Err(status) => format!("{} {}", status.code(), super::hex(status.message().as_bytes())),
        })?;
    }
    Ok(())
}

impl Calls {
    fn new(address: &str) -> Result<Self, BadAddress> {
        let client = Client::builder().default_deadline(PATIENCE).build();
        Ok(Self {
            address: address.to_owned(),
            service: TestServiceCaller::new(&client, address)?,
            unimplemented: UnimplementedServiceCaller::new(&client, address)?,
            notes: NotesCaller::new(&client, address)?,
            client,
            attachment: None,
        })
    }

    /// Does what a line says, and returns its result, or the status that a call has failed with.
    fn execute(&mut self, words: &[&str]) -> Result<String, Status> {
        match *words {
            ["empty"] => no_result(self.service.empty_call(&Empty {})),
            ["unary", request, reply] => unary(&self.service, number(request)?, number(reply)?),
            ["unary-metadata", text, bytes] => self.unary_metadata(text, bytes),
            ["unary-status", code, text] => self.unary_status(number(code)?, text),
            ["cacheable", size] => self.cacheable(number(size)?),
            ["input", ref sizes @ ..] => self.input(sizes),
            ["output", interval, ref sizes @ ..] => self.output(number(interval)?, sizes),
            ["ping-pong", ref turns @ ..] => self.ping_pong(turns, &[]),
            ["half-duplex", ref turns @ ..] => self.half_duplex(turns),
            ["duplex-metadata", text, bytes] => self.duplex_metadata(text, bytes),
            ["duplex-status", code, text] => self.duplex_status(number(code)?, text),
            ["duplex-deadline", ms] => self.duplex_deadline(number(ms)?),
            ["unimplemented-method"] => no_result(self.service.unimplemented_call(&Empty {})),
            ["unimplemented-service"] => {
                no_result(self.unimplemented.unimplemented_call(&Empty {}))
            }
            ["cancel-after-begin"] => {
                no_result(self.service.streaming_input_call().map(RequestStream::cancel))
            }
            ["cancel-after-first"] => self.cancel_after_first(),
            ["soak", calls, request, reply] => self.soak(false, calls, request, reply),
            ["reconnect-soak", calls, request, reply] => self.soak(true, calls, request, reply),
            ["time", calls, size] => self.time(number(calls)?, number(size)?),
            ["note", text] => no_result(self.notes.leave(&Note { text: text.to_owned() })),
            ["keep", text] => {
                Ok(self.notes.keep(&Note { text: text.to_owned() })?.notes.to_string())
            }
            ["notes"] => Ok(self.notes.count(&())?.notes.to_string()),
            ["sleep", ms, deadline] => self.sleep(number(ms)?, number(deadline)?),
            ["hunt", ms] => no_result(self.client.hunt(&self.address, milliseconds(number(ms)?))),
            ["attach"] => self.attach(),
            ["notice", ms] => self.notice(milliseconds(number(ms)?)),
            ["switch", mechanism] => no_result(self.switch(mechanism)),
            ["switching", ref mechanisms @ ..] => self.ping_pong(&["8:9"], mechanisms),
            _ => Err(Status::invalid_argument("there is no such command")),
        }
    }

    fn with_metadata(&self, text: &str, bytes: &str) -> Result<TestServiceCaller, Status> {
        let options = CallOptions::new().metadata(ECHO_INITIAL, text).map_err(invalid)?;
        let options = options.metadata_bin(ECHO_TRAILING, &super::bytes_of(bytes)?);
        Ok(self.service.with(options.map_err(invalid)?))
    }

    fn unary_metadata(&self, text: &str, bytes: &str) -> Result<String, Status> {
        let request = SimpleRequest { response_size: 1, payload: zeros(1)?, ..Default::default() };
        let caller = self.with_metadata(text, bytes)?;
        let (reply, metadata) = caller.start_unary_call(&request).wait_with_metadata();
        check_zeros(reply?.payload.as_ref())?;
        echoes(metadata.headers().get(ECHO_INITIAL), metadata.get_bin(ECHO_TRAILING))
    }

    fn unary_status(&self, code: i32, text: &str) -> Result<String, Status> {
        let response_status = Some(status(code, text)?);
        no_result(self.service.unary_call(&SimpleRequest { response_status, ..Default::default() }))
    }

    fn cacheable(&self, size: i32) -> Result<String, Status> {
        let request = SimpleRequest { payload: zeros(size)?, ..Default::default() };
        let (reply, metadata) =
            self.service.start_cacheable_unary_call(&request).wait_with_metadata();
        let size = check_zeros(reply?.payload.as_ref())?;
        let value = metadata.get(CACHE_CONTROL.0).unwrap_or_default();
        Ok(format!("{size} {}", super::hex(value.as_bytes())))
    }

    fn input(&self, sizes: &[&str]) -> Result<String, Status> {
        let mut requests = self.service.streaming_input_call()?;
        for size in sizes {
            let payload = zeros(number(size)?)?;
            requests.send(&StreamingInputCallRequest { payload, ..Default::default() })?;
        }
        Ok(requests.finish()?.aggregated_payload_size.to_string())
    }

    fn output(&self, interval_us: i32, sizes: &[&str]) -> Result<String, Status> {
        let mut request = StreamingOutputCallRequest::default();
        for size in sizes {
            let size = number(size)?;
            let parameters = ResponseParameters { size, interval_us, ..Default::default() };
            request.response_parameters.push(parameters);
        }
        read_rest(&mut self.service.streaming_output_call(&request)?)
    }

    /// Sends one item after the reply to the one before; moves to the next mechanism after each.
    fn ping_pong(&self, turns: &[&str], mechanisms: &[&str]) -> Result<String, Status> {
        let (mut requests, mut replies) = self.service.full_duplex_call()?;
        let mut sizes = Vec::new();
        for turn in turns {
            sizes.push(exchange(&mut requests, &mut replies, turn)?);
            for mechanism in mechanisms {
                self.switch(mechanism)?;
                sizes.push(exchange(&mut requests, &mut replies, turn)?);
            }
        }
        requests.finish()?;
        read_rest(&mut replies)?;
        Ok(sizes.join(" "))
    }

    fn half_duplex(&self, turns: &[&str]) -> Result<String, Status> {
        let (mut requests, mut replies) = self.service.half_duplex_call()?;
        for turn in turns {
            requests.send(&request_of(turn)?)?;
        }
        requests.finish()?;
        read_rest(&mut replies)
    }

    fn duplex_metadata(&self, text: &str, bytes: &str) -> Result<String, Status> {
        let (mut requests, mut replies) = self.with_metadata(text, bytes)?.full_duplex_call()?;
        requests.send(&request_of("1:1")?)?;
        requests.finish()?;
        let headers = replies.headers();
        read_rest(&mut replies)?;
        echoes(headers.get(ECHO_INITIAL), replies.metadata().get_bin(ECHO_TRAILING))
    }

    fn duplex_status(&self, code: i32, text: &str) -> Result<String, Status> {
        let (mut requests, mut replies) = self.service.full_duplex_call()?;
        let response_status = Some(status(code, text)?);
        requests.send(&StreamingOutputCallRequest { response_status, ..Default::default() })?;
        // The service may have ended the call already, which the replies show.
        let _ = requests.finish();
        read_rest(&mut replies)
    }

    fn duplex_deadline(&self, ms: i32) -> Result<String, Status> {
        let caller = self.service.with(CallOptions::new().deadline(milliseconds(ms)));
        let (mut requests, mut replies) = caller.full_duplex_call()?;
        let payload = zeros(27_182)?;
        requests.send(&StreamingOutputCallRequest { payload, ..Default::default() })?;
        read_rest(&mut replies)
    }

    fn cancel_after_first(&self) -> Result<String, Status> {
        let (mut requests, mut replies) = self.service.full_duplex_call()?;
        exchange(&mut requests, &mut replies, "27182:31415")?;
        replies.cancel();
        Ok(String::new())
    }

    fn soak(
        &self,
        reconnects: bool,
        calls: &str,
        request: &str,
        reply: &str,
    ) -> Result<String, Status> {
        for _ in 0..number(calls)? {
            let other = reconnects.then(|| Self::new(&self.address)).transpose()?;
            let service = other.as_ref().map_or(&self.service, |calls| &calls.service);
            unary(service, number(request)?, number(reply)?)?;
        }
        Ok(calls.to_owned())
    }

    fn time(&self, calls: i32, size: i32) -> Result<String, Status> {
        let payload = zeros(size)?;
        let request = SimpleRequest { response_size: size, payload, ..Default::default() };
        let start = clock::now();
        for _ in 0..calls {
            match size {
                0 => drop(self.service.empty_call(&Empty {})?),
                _ => drop(self.service.unary_call(&request)?),
            }
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
        Ok(format!("{ns:.1}"))
    }

    fn sleep(&self, ms: i32, deadline_ms: i32) -> Result<String, Status> {
        let request = SleepRequest { milliseconds: ms.unsigned_abs() };
        let options = CallOptions::new().deadline(milliseconds(deadline_ms));
        no_result(self.notes.with(options).sleep(&request))
    }

    fn attach(&mut self) -> Result<String, Status> {
        self.attachment = Some(self.client.attach(&self.address)?);
        Ok(String::new())
    }

    fn notice(&self, timeout: Duration) -> Result<String, Status> {
        let attachment = self.attachment.as_ref();
        let attachment = attachment.ok_or_else(|| Status::invalid_argument("attach before"))?;
        let notice = attachment.wait(timeout);
        let notice = notice.ok_or_else(|| Status::deadline_exceeded("the server is there"))?;
        let cause = match notice.cause {
            Cause::Exited { .. } => "exited",
            Cause::Killed { .. } => "killed",
            Cause::Closed => "closed",
            Cause::Replaced { .. } => "replaced",
            Cause::Unresponsive => "unresponsive",
            _ => "lost",
        };
        Ok(cause.to_owned())
    }

    fn switch(&self, mechanism: &str) -> Result<(), Status> {
        self.client.switch(&self.address, mechanism, PATIENCE)
    }
}

fn unary(service: &TestServiceCaller, request: i32, reply: i32) -> Result<String, Status> {
    let payload = zeros(request)?;
    let request = SimpleRequest { response_size: reply, payload, ..Default::default() };
    check_zeros(service.unary_call(&request)?.payload.as_ref())
}

/// Returns a request such as `27182:31415`: a payload of 27182 bytes for a reply of 31415.
fn request_of(turn: &str) -> Result<StreamingOutputCallRequest, Status> {
    let (request, reply) = turn.split_once(':').unwrap_or((turn, ""));
    let parameters = ResponseParameters { size: number(reply)?, ..Default::default() };
    Ok(StreamingOutputCallRequest {
        payload: zeros(number(request)?)?,
        response_parameters: vec![parameters],
        ..Default::default()
    })
}

fn exchange(requests: &mut Requests, replies: &mut Replies, turn: &str) -> Result<String, Status> {
    requests.send(&request_of(turn)?)?;
    let reply = replies.recv()?;
    let reply = reply.ok_or_else(|| Status::data_loss("the replies have ended"))?;
    check_zeros(reply.payload.as_ref())
}

/// Reads the replies to their end, and returns their sizes.
fn read_rest(replies: &mut Replies) -> Result<String, Status> {
    let mut sizes = Vec::new();
    for reply in replies {
        sizes.push(check_zeros(reply?.payload.as_ref())?);
    }
    Ok(sizes.join(" "))
}

/// Returns the size of a payload, which must consist of zeros.
fn check_zeros(payload: Option<&Payload>) -> Result<String, Status> {
    let body = payload.map(|payload| &payload.body[..]).unwrap_or_default();
    match body.iter().all(|byte| *byte == 0) {
        true => Ok(body.len().to_string()),
        false => Err(Status::data_loss("a payload does not consist of zeros")),
    }
}

fn echoes(text: Option<&str>, bytes: Option<&[u8]>) -> Result<String, Status> {
    let bytes = bytes.map(super::hex);
    Ok(format!("{} {}", text.unwrap_or("none"), bytes.as_deref().unwrap_or("none")))
}

fn status(code: i32, text: &str) -> Result<EchoStatus, Status> {
    let text = String::from_utf8(super::bytes_of(text)?).map_err(invalid)?;
    Ok(EchoStatus { code, message: text })
}

fn number(word: &str) -> Result<i32, Status> {
    i32::from_str(word).map_err(invalid)
}

fn milliseconds(ms: i32) -> Duration {
    Duration::from_millis(ms.unsigned_abs().into())
}

fn invalid(error: impl Display) -> Status {
    Status::invalid_argument(error.to_string())
}

fn no_result<T>(result: Result<T, Status>) -> Result<String, Status> {
    result.map(|_| String::new())
}
