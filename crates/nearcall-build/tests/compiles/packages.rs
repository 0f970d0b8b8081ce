//! Packages that import each other, in the tree of modules that the including file makes.

#[rustfmt::skip]
#[deny(clippy::pedantic)]
mod included {
    include!("../golden/packages/interfaces.rs");
}

use self::included::common::v1::Id;
use self::included::shop::v1::{Orders, OrdersCaller, OrdersDispatcher};
use self::included::shop::{Item, item};
use crate::runtime::register;
use crate::{Client, Context, ItemSender, Status};

struct Shop;

impl Orders for Shop {
    fn place(&self, _: &Context<'_>, request: &Item) -> Result<Id, Status> {
        request.id.ok_or(Status("no id"))
    }

    fn watch(
        &self,
        _: &Context<'_>,
        request: &Id,
        mut items: ItemSender<Item>,
    ) -> Result<(), Status> {
        items.send(&Item { id: Some(*request), kind: item::Kind::Unspecified.into() })
    }
}

#[test]
fn types_of_other_packages_are_found() {
    register(OrdersDispatcher::new(Shop));
    let orders = OrdersCaller::new(&Client::default(), "here").unwrap();
    let id = Id { number: 3 };
    let placed = orders.place(&Item { id: Some(id), ..Item::default() });
    assert_eq!(placed, Ok(id));
    assert_eq!(orders.watch(&id).unwrap().recv().unwrap().unwrap().id, Some(id));
}
