//! Async services and async callers, through the golden files.

use std::sync::{Arc, Mutex};
use std::thread;

use nearcall::stream::{AsyncItemReceiver, AsyncItemSender};
use nearcall::{CallContext, CallOptions, Client, Context, Status};
use smol::block_on;

use crate::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, ThermostatAsync, ThermostatAsyncCaller,
    ThermostatAsyncDispatcher, ThermostatCaller, WatchReply, WatchRequest,
};
use crate::scan::{
    Page, ScannerAsync_, ScannerAsyncCaller_, ScannerAsyncDispatcher_, ScannerCaller_,
};
use crate::serve;

#[derive(Default)]
struct Room {
    celsius: Mutex<f64>,
    notes: Mutex<Vec<String>>,
}

/// As a user writes it.
impl ThermostatAsync for Room {
    async fn set_target(
        &self,
        _: CallContext,
        request: SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        let mut celsius = self.celsius.lock().unwrap();
        Ok(SetTargetReply { celsius_before: std::mem::replace(&mut celsius, request.celsius) })
    }

    async fn note(&self, _: CallContext, request: NoteRequest) {
        self.notes.lock().unwrap().push(request.text);
    }

    async fn watch(&self, context: CallContext, _: WatchRequest) -> Result<WatchReply, Status> {
        Err(Status::unavailable(context.metadata().get("why").unwrap_or("no reason")))
    }

    async fn reset(&self, _: CallContext, (): ()) -> Result<(), Status> {
        Ok(())
    }
}

#[test]
fn an_async_service_serves_callers_of_both_kinds() {
    let room = Arc::new(Room::default());
    let (_server, address) = serve(ThermostatAsyncDispatcher::shared(Arc::clone(&room)));
    let client = Client::new();
    let (sync, by_future) = (
        ThermostatCaller::new(&client, &address).unwrap(),
        ThermostatAsyncCaller::new(&client, &address).unwrap(),
    );
    sync.set_target(&SetTargetRequest { celsius: 20.0 }).unwrap();
    let request = SetTargetRequest { celsius: 21.0 };
    assert_eq!(block_on(by_future.set_target(&request)).unwrap().celsius_before, 20.0);
    block_on(by_future.note(&NoteRequest { text: "hello".to_owned() })).unwrap();
    // A call over the same connection is served after it.
    block_on(by_future.reset(&())).unwrap();
    assert_eq!(*room.notes.lock().unwrap(), ["hello"]);
    let refused = block_on(by_future.watch(&WatchRequest {})).unwrap_err();
    assert_eq!(refused.message(), "no reason");
    let later = by_future.with(CallOptions::new().metadata("why", "not now").unwrap());
    assert_eq!(block_on(later.watch(&WatchRequest {})).unwrap_err().message(), "not now");
    assert_eq!(block_on(by_future.loan(7)).unwrap().len(), 7);
}

#[test]
fn a_future_that_is_not_polled_makes_no_call() {
    let room = Arc::new(Room::default());
    let (_server, address) = serve(ThermostatAsyncDispatcher::shared(Arc::clone(&room)));
    let caller = ThermostatAsyncCaller::new(&Client::new(), &address).unwrap();
    let request = NoteRequest::default();
    drop(caller.note(&request));
    block_on(caller.reset(&())).unwrap();
    assert!(room.notes.lock().unwrap().is_empty());
}

#[test]
fn methods_run_where_the_program_puts_them() {
    let spawned = Arc::new(Mutex::new(0));
    let count = Arc::clone(&spawned);
    let dispatcher = ThermostatAsyncDispatcher::new(Room::default()).spawn_on(move |task| {
        *count.lock().unwrap() += 1;
        thread::spawn(|| block_on(task));
    });
    let (_server, address) = serve(dispatcher.clone());
    let caller = ThermostatCaller::new(&Client::new(), &address).unwrap();
    caller.reset(&()).unwrap();
    caller.set_target(&SetTargetRequest { celsius: 20.0 }).unwrap();
    assert_eq!(*spawned.lock().unwrap(), 2);
    assert_eq!(*dispatcher.service().celsius.lock().unwrap(), 20.0);
}

struct Device;

/// Methods that add a number of their own.
macro_rules! adders {
    ($($name:ident $number:literal,)*) => {
        $(async fn $name(&self, _: CallContext, request: Page) -> Result<Page, Status> {
            Ok(Page { number: request.number + $number })
        })*
    };
}

impl ScannerAsync_ for Device {
    adders! {
        new 1, scan 2, start_scan 3, with 4, loan 5, service 8, spawn_on 9, shared 10, object 11,
    }

    async fn mark(&self, _: CallContext, _: Page) {}

    async fn progress(
        &self,
        _: CallContext,
        request: Page,
        mut items: AsyncItemSender<Page>,
    ) -> Result<(), Status> {
        for number in 0..request.number {
            items.send(&Page { number }).await?;
        }
        Ok(())
    }

    async fn upload(
        &self,
        _: CallContext,
        mut items: AsyncItemReceiver<Page>,
    ) -> Result<Page, Status> {
        let mut number = 0;
        while let Some(item) = items.next().await {
            number += item?.number;
        }
        Ok(Page { number })
    }

    async fn chat(
        &self,
        _: CallContext,
        mut items: AsyncItemReceiver<Page>,
        mut replies: AsyncItemSender<Page>,
    ) -> Result<(), Status> {
        while let Some(item) = items.next().await {
            replies.send(&item?).await?;
        }
        Ok(())
    }
}

#[test]
fn streams_are_awaited() {
    let (_server, address) = serve(ScannerAsyncDispatcher_::new(Device));
    let client = Client::new();
    let caller = ScannerAsyncCaller_::new_(&client, &address).unwrap();
    let page = |number| Page { number };
    block_on(async {
        let mut pages = caller.progress(&page(1)).await.unwrap();
        assert_eq!(pages.next().await.unwrap().unwrap(), page(0));
        assert!(pages.next().await.is_none());
        let mut pages = caller.upload().await.unwrap();
        pages.send(&page(3)).await.unwrap();
        pages.send(&page(4)).await.unwrap();
        assert_eq!(pages.finish().await.unwrap(), page(7));
        let (mut requests, mut replies) = caller.chat().await.unwrap();
        requests.send(&page(5)).await.unwrap();
        requests.finish().await.unwrap();
        assert_eq!(replies.next().await.unwrap().unwrap(), page(5));
        assert_eq!(caller.new(&page(0)).await.unwrap(), page(1));
        let with = caller.with_(CallOptions::new());
        assert_eq!(with.with(&page(0)).await.unwrap(), page(4));
    });
    let sync = ScannerCaller_::new_(&client, &address).unwrap();
    let started = sync.with_(CallOptions::new().no_wait()).start_scan_(&page(0)).ensure_started();
    assert_eq!(started.unwrap().wait().unwrap(), page(2));
}

/// Never called: it compiles if everything that threads share is `Send` (and `Sync`).
fn what_threads_share_can_be_sent() {
    struct Shared;
    impl crate::scan::ScannerAsync for Shared {
        fn scan(&self, _: &Context<'_>, request: &Page) -> Result<Page, Status> {
            Ok(*request)
        }
    }
    fn check_send<T: Send>(_: &T) {}
    fn check_shared<T: Clone + Send + Sync>(_: &T) {}
    let client = Client::new();
    let caller = ScannerAsyncCaller_::new_(&client, "here").unwrap();
    check_shared(&caller);
    check_shared(&ThermostatCaller::new(&client, "here").unwrap());
    check_shared(&ThermostatAsyncDispatcher::new(Room::default()));
    check_shared(&crate::scan::ScannerAsyncDispatcher::new(Shared));
    let request = Page::default();
    check_send(&caller.scan(&request));
    check_send(&caller.mark(&request));
    check_send(&caller.loan_(1));
    check_send(&caller.progress(&request));
    check_send(&caller.upload());
    check_send(&caller.chat());
}

const _: fn() = what_threads_share_can_be_sent;
