//! The event loop inside tokio's, whose epoll is edge-triggered.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nearcall::{CallOptions, Client, Context, EventLoop, Server, Status};
use tokio::io::unix::AsyncFd;

use self::home::{Temperature, Thermostat, ThermostatCaller, ThermostatDispatcher};

mod home {
    nearcall::include_proto!("home.v1");
}

const CALLS: u32 = 200;
const ROUNDS: u32 = 2;

struct Room(Cell<u32>);

impl Thermostat for Room {
    fn set_target(&self, _: &Context<'_>, request: &Temperature) -> Result<Temperature, Status> {
        self.0.set(self.0.get() + 1);
        Ok(*request)
    }
}

fn flood(address: &str) {
    let client = Client::new();
    let thermostat = ThermostatCaller::new(&client, address).unwrap();
    let thermostat = thermostat.with(CallOptions::new().deadline(Duration::from_secs(20)));
    for _ in 0..ROUNDS {
        let start = |_| thermostat.start_set_target(&Temperature { celsius: 20.0 });
        let calls: Vec<_> = (0..CALLS).map(start).collect();
        calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap().celsius, 20.0));
    }
}

async fn host(event_loop: &EventLoop, room: &Room) {
    #[allow(
        deprecated,
        reason = "the newer one is unsafe; what it asks for, a `BorrowedFd` promises"
    )]
    let readable = AsyncFd::new(event_loop.as_fd()).unwrap();
    loop {
        event_loop.turn().unwrap();
        if room.0.get() == CALLS * ROUNDS {
            return;
        }
        readable.readable().await.unwrap().clear_ready();
        // Meanwhile more arrives than one turn serves.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[test]
fn a_flooded_server_comes_back_to_what_a_turn_has_left() {
    for mechanism in ["unix-stream", "shm-eventfd", "shm-spin", "pipe", "shm-signal", "shm-futex"] {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        let dispatcher = ThermostatDispatcher::new(Room(Cell::new(0)));
        let room = Arc::clone(dispatcher.service());
        server.register(dispatcher).unwrap();
        // An address for each: processes that other tests start hold these sockets until they exec.
        let address = format!("unix:@nearcall-it-hosted-{mechanism}-{}", process::id());
        server.listen(&format!("{address}?allow=all")).unwrap();
        let client = thread::spawn(move || flood(&format!("{address}?via={mechanism}")));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let patience = Duration::from_secs(30);
        let hosted = runtime
            .block_on(async { tokio::time::timeout(patience, host(&event_loop, &room)).await });
        // The last replies are still to be sent.
        while !client.is_finished() {
            event_loop.turn().unwrap();
        }
        client.join().unwrap();
        assert!(hosted.is_ok(), "{mechanism}: the host was not called again");
    }
}
