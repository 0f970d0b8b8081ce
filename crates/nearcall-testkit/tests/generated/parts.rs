//! An interface of which parts were left out: what is left compiles, and calls the whole of it.

use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{CallContext, Context, Status};
use smol::block_on;

use crate::{InLoop, serve};

macro_rules! parts {
    ($($name:ident)*) => {
        $(#[deny(clippy::pedantic)]
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), "/streams.v1.rs"));
        })*
    };
}

parts! { callers dispatchers sync_api async_api async_callers messages }

struct Whole;

/// A service of one module's trait that only replies.
macro_rules! says {
    ($module:ident) => {
        impl $module::Streams for Whole {
            fn count(
                &self,
                _: &Context<'_>,
                _: &$module::Plan,
                _: ItemSender<$module::Item>,
            ) -> Result<(), Status> {
                Ok(())
            }

            fn count_quickly(
                &self,
                _: &Context<'_>,
                _: &$module::Plan,
                _: ItemSender<$module::Item>,
            ) -> Result<(), Status> {
                Ok(())
            }

            fn sum(
                &self,
                _: &Context<'_>,
                _: ItemReceiver<$module::Item>,
            ) -> Result<$module::Item, Status> {
                Ok($module::Item::default())
            }

            fn drain(&self, _: &Context<'_>, _: ItemReceiver<$module::Item>) -> Result<(), Status> {
                Ok(())
            }

            fn exchange(
                &self,
                _: &Context<'_>,
                _: ItemReceiver<$module::Item>,
                _: ItemSender<$module::Item>,
            ) -> Result<(), Status> {
                Ok(())
            }

            fn say(
                &self,
                _: &Context<'_>,
                request: &$module::Item,
            ) -> Result<$module::Item, Status> {
                Ok(request.clone())
            }
        }
    };
}

says!(dispatchers);
says!(sync_api);

#[test]
fn callers_without_traits_call_a_service_of_their_own_thread_through_bytes() {
    let here = InLoop::serve(dispatchers::StreamsDispatcher::new(Whole));
    let caller = callers::StreamsCaller::new(&here.client, &here.address).unwrap();
    let item = callers::Item { number: 7, data: vec![1, 2] };
    assert_eq!(caller.say(&item).unwrap(), item);
    assert_eq!(caller.start_say(&item).wait().unwrap(), item);
}

#[test]
fn callers_of_futures_need_no_other_part() {
    let (_server, address) = serve(sync_api::StreamsDispatcher::new(Whole));
    let client = nearcall::Client::new();
    let caller = async_callers::StreamsAsyncCaller::new(&client, &address).unwrap();
    let item = async_callers::Item { number: 8, data: Vec::new() };
    assert_eq!(block_on(caller.say(&item)).unwrap(), item);
    let caller = sync_api::StreamsCaller::new(&client, &address).unwrap();
    assert_eq!(caller.say(&sync_api::Item::default()).unwrap(), sync_api::Item::default());
}

/// Compiles if the part with async methods stands alone.
#[expect(dead_code, reason = "it is compiled, and not called")]
async fn what_is_async_stands_alone<T: async_api::StreamsAsync>(service: T, context: CallContext) {
    let _ = service.say(context, async_api::Item::default()).await;
    let _ = async_api::StreamsAsyncDispatcher::new(service);
    let _ = messages::Plan::default();
}
