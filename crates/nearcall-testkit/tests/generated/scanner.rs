//! Calls of every shape through the golden file of the scanner, whose names clash with ours.

use std::cell::RefCell;

use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{CallOptions, Context, Status};

use crate::InLoop;
use crate::scan::{
    Page, Scanner, ScannerAsync, ScannerAsyncCaller, ScannerAsyncDispatcher, ScannerCaller,
    ScannerCaller_, ScannerDispatcher_, ScannerMethods,
};

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
        new 1, scan 2, start_scan 3, with 4, loan 5, service 8, spawn_on 9, shared 10, object 11,
    }

    fn mark(&self, _: &Context<'_>, request: &Page) {
        self.marks.borrow_mut().push(request.number);
    }

    fn progress(
        &self,
        _: &Context<'_>,
        request: &Page,
        items: ItemSender<Page>,
    ) -> Result<(), Status> {
        (0..request.number).try_for_each(|number| items.send(&page(number)))?;
        if request.number > 5 { Err(Status::internal("jammed")) } else { Ok(()) }
    }

    fn upload(&self, _: &Context<'_>, items: ItemReceiver<Page>) -> Result<Page, Status> {
        let mut sum = 0;
        while let Some(item) = items.recv()? {
            sum += item.number;
        }
        Ok(page(sum))
    }

    fn chat(
        &self,
        _: &Context<'_>,
        items: ItemReceiver<Page>,
        replies: ItemSender<Page>,
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

fn caller() -> (InLoop, ScannerCaller_) {
    let here = InLoop::serve(ScannerDispatcher_::new(Device::default()));
    let caller = ScannerCaller_::new_(&here.client, &here.address).unwrap();
    (here, caller)
}

#[test]
fn methods_have_their_own_names_and_ours_are_escaped() {
    let (_here, plain) = caller();
    let with = plain.with_(CallOptions::new());
    for caller in [plain, with] {
        let reached = [
            caller.new(&page(0)),
            caller.scan(&page(0)),
            caller.start_scan(&page(0)),
            caller.with(&page(0)),
            caller.loan(&page(0)),
            caller.start_scan_(&page(0)).wait(),
            caller.start_start_scan(&page(0)).wait(),
            caller.start_with(&page(0)).wait(),
        ];
        let numbers = reached.map(|reply| reply.unwrap().number);
        assert_eq!(numbers, [1, 2, 3, 4, 5, 2, 3, 4]);
        assert_eq!(caller.loan_(3).unwrap().len(), 3);
        caller.mark(&page(1)).unwrap();
    }
}

#[test]
fn types_of_the_package_keep_their_names() {
    let here = InLoop::serve(ScannerAsyncDispatcher::new(Device::default()));
    let caller = ScannerAsyncCaller::new(&here.client, &here.address).unwrap();
    assert_eq!(caller.scan(&page(0)).unwrap().number, 20);
    let _messages = (ScannerCaller {}, ScannerMethods {}, crate::scan::scanner_methods::Inner {});
}

#[test]
fn a_stream_of_replies_ends_with_the_result() {
    let (_here, caller) = caller();
    let mut pages = caller.progress(&page(2)).unwrap();
    let received = [pages.recv(), pages.recv(), pages.recv()].map(Result::unwrap);
    assert_eq!(received, [Some(page(0)), Some(page(1)), None]);
    let mut pages = caller.progress(&page(6)).unwrap();
    assert!((0..6).all(|_| pages.recv().unwrap().is_some()));
    assert_eq!(pages.recv().unwrap_err().message(), "jammed");
}

#[test]
fn a_stream_of_requests_ends_with_the_reply() {
    let (_here, caller) = caller();
    let mut pages = caller.upload().unwrap();
    (1..=3).for_each(|number| pages.send(&page(number)).unwrap());
    assert_eq!(pages.finish().unwrap(), page(6));
}

#[test]
fn two_streams_are_two_values() {
    let (_here, caller) = caller();
    let (mut requests, mut replies) = caller.chat().unwrap();
    requests.send(&page(4)).unwrap();
    requests.send(&page(5)).unwrap();
    requests.finish().unwrap();
    let received = [replies.recv(), replies.recv(), replies.recv()].map(Result::unwrap);
    assert_eq!(received, [Some(page(4)), Some(page(5)), None]);
}
