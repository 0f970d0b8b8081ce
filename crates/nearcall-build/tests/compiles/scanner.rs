//! Calls of every shape through the golden file of the scanner, whose names clash with ours.

use std::cell::RefCell;
use std::sync::Arc;

use crate::runtime::register;
use crate::scan::{
    Page, Scanner, ScannerAsync, ScannerAsyncCaller, ScannerAsyncDispatcher, ScannerCaller,
    ScannerCaller_, ScannerDispatcher_, ScannerMethods,
};
use crate::{CallOptions, Client, Context, ItemReceiver, ItemSender, Status};

#[derive(Default)]
struct Device {
    marks: RefCell<Vec<u64>>,
}

fn page(number: u64) -> Page {
    Page { number }
}

/// Methods that add a number of their own, so that each call shows which method it reached.
macro_rules! adders {
    ($($name:ident $number:literal,)*) => {
        $(fn $name(&self, _: &Context<'_>, request: &Page) -> Result<Page, Status> {
            Ok(page(request.number + $number))
        })*
    };
}

impl Scanner for Device {
    adders! {
        new 1, scan 2, start_scan 3, scan_with 4, loan 5, loan_bytes 6, try_loan 7, service 8,
        spawn_on 9, shared 10, object 11,
    }

    fn mark(&self, _: &Context<'_>, request: &Page) {
        self.marks.borrow_mut().push(request.number);
    }

    fn try_mark(&self, _: &Context<'_>, request: &Page) {
        self.marks.borrow_mut().push(request.number + 100);
    }

    fn progress(
        &self,
        _: &Context<'_>,
        request: &Page,
        mut items: ItemSender<Page>,
    ) -> Result<(), Status> {
        (0..request.number).try_for_each(|number| items.send(&page(number)))?;
        if request.number > 5 { Err(Status("jammed")) } else { Ok(()) }
    }

    fn upload(&self, _: &Context<'_>, mut items: ItemReceiver<Page>) -> Result<Page, Status> {
        let mut sum = 0;
        while let Some(item) = items.recv()? {
            sum += item.number;
        }
        Ok(page(sum))
    }

    fn upload_with(&self, context: &Context<'_>, _: ItemReceiver<Page>) -> Result<(), Status> {
        Err(Status(context.text))
    }

    fn chat(
        &self,
        _: &Context<'_>,
        mut items: ItemReceiver<Page>,
        mut replies: ItemSender<Page>,
    ) -> Result<(), Status> {
        while let Some(item) = items.recv()? {
            replies.send(&item)?;
        }
        Ok(())
    }
}

/// The service with the name that the async trait of [`Scanner`] would have.
impl ScannerAsync for Device {
    adders! { scan 20, }
}

fn caller() -> ScannerCaller_ {
    register(ScannerDispatcher_::new(Device::default()));
    ScannerCaller_::new_(&Client::default(), "here").unwrap()
}

#[test]
fn methods_have_their_own_names_and_ours_are_escaped() {
    let (caller, options) = (caller(), CallOptions::new());
    let reached = [
        caller.new(&page(0)),
        caller.scan(&page(0)),
        caller.start_scan(&page(0)),
        caller.with(page(0)).scan(),
        caller.loan(&page(0)),
        caller.loan_bytes(&page(0)),
        caller.with(CallOptions::new().no_wait()).loan(&page(0)),
        caller.scan_with_(&page(0), &options),
        caller.start_scan_(&page(0)).0,
        caller.start_scan_with_(&page(0), &options).0,
        caller.with(options.clone()).start_scan(&page(0)),
        caller.with(options.clone()).with(page(0)).scan(),
        caller.with(options.clone()).loan(&page(0)),
        caller.start_start_scan(&page(0)).0,
    ];
    let numbers = reached.map(|reply| reply.unwrap().number);
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 2, 2, 2, 3, 4, 5, 3]);
    let loans = [caller.loan_(3), caller.loan_with_(4, &options), caller.try_loan_(5)];
    assert_eq!(loans.map(|loan| loan.unwrap().0.len()), [3, 4, 5]);
}

#[test]
fn a_message_that_does_not_wait_is_beside_a_method_of_its_name() {
    let dispatcher = ScannerDispatcher_::new(Device::default());
    let device = Arc::clone(dispatcher.service());
    register(dispatcher.clone());
    let caller = ScannerCaller_::new_(&Client::default(), "here").unwrap();
    caller.mark(&page(1)).unwrap();
    caller.with(CallOptions::new().no_wait()).mark(&page(2)).unwrap();
    caller.try_mark_(&page(3)).unwrap();
    caller
        .with(CallOptions::new().no_wait())
        .with(CallOptions::new().no_wait())
        .mark(&page(4))
        .unwrap();
    assert_eq!(*device.marks.borrow(), [1, 102, 3, 104]);
}

#[test]
fn types_of_the_package_keep_their_names() {
    register(ScannerAsyncDispatcher::new(Device::default()));
    let caller = ScannerAsyncCaller::new(&Client::default(), "here").unwrap();
    assert_eq!(caller.scan(&page(0)).unwrap().number, 20);
    let _messages = (ScannerCaller {}, ScannerMethods {}, crate::scan::scanner_methods::Inner {});
}

#[test]
fn a_stream_of_replies_ends_with_the_result() {
    let caller = caller();
    let mut pages = caller.progress(&page(2)).unwrap();
    let received = [pages.recv(), pages.recv(), pages.recv()];
    assert_eq!(received, [Ok(Some(page(0))), Ok(Some(page(1))), Ok(None)]);
    let mut pages = caller.progress(&page(6)).unwrap();
    assert!((0..6).all(|_| pages.recv().unwrap().is_some()));
    assert_eq!(pages.recv(), Err(Status("jammed")));
}

#[test]
fn a_stream_of_requests_ends_with_the_reply() {
    let caller = caller();
    let mut pages = caller.upload().unwrap();
    (1..=3).for_each(|number| pages.send(&page(number)).unwrap());
    assert_eq!(pages.finish(), Ok(page(6)));
    let options = CallOptions { text: "with options" };
    assert_eq!(caller.upload_with_(&options).unwrap().finish(), Ok(page(0)));
    let refused = caller.with(options.clone()).upload_with().unwrap().finish();
    assert_eq!(refused, Err(Status("with options")));
}

#[test]
fn two_streams_are_two_values() {
    let (mut requests, mut replies) = caller().chat().unwrap();
    requests.send(&page(4)).unwrap();
    requests.send(&page(5)).unwrap();
    requests.finish().unwrap();
    let received = [replies.recv(), replies.recv(), replies.recv()];
    assert_eq!(received, [Ok(Some(page(4))), Ok(Some(page(5))), Ok(None)]);
}
