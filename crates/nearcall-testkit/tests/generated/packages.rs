//! Packages that import each other, in the tree of modules that the including file makes.

#[rustfmt::skip]
#[deny(clippy::pedantic)]
mod included {
    include!("../../../nearcall-build/tests/golden/packages/interfaces.rs");
}

use nearcall::stream::ItemSender;
use nearcall::{Context, Status};

use self::included::common::v1::Id;
use self::included::shop::r#type::Money;
use self::included::shop::v1::cart::line::{Note, Unit};
use self::included::shop::v1::cart::{Checkout, CheckoutCaller, CheckoutDispatcher, Coupon, Line};
use self::included::shop::v1::{Cart, Orders, OrdersCaller, OrdersDispatcher};
use self::included::shop::{Item, item};
use crate::InLoop;

struct Shop;

impl Orders for Shop {
    fn place(&self, _: &Context<'_>, request: &Item) -> Result<Id, Status> {
        request.id.ok_or_else(|| Status::not_found("no id"))
    }

    fn watch(&self, _: &Context<'_>, request: &Id, items: ItemSender<Item>) -> Result<(), Status> {
        items.send(&Item { id: Some(*request), kind: item::Kind::Unspecified.into() })
    }
}

impl Checkout for Shop {
    fn pay(&self, _: &Context<'_>, request: &Cart) -> Result<Money, Status> {
        request.coupon.and_then(|coupon| coupon.value).ok_or_else(|| Status::not_found("no coupon"))
    }

    fn weigh(&self, _: &Context<'_>, request: &Line) -> Result<Line, Status> {
        Ok(request.clone())
    }
}

#[test]
fn a_package_and_a_message_share_a_module() {
    let here = InLoop::serve(CheckoutDispatcher::new(Shop));
    let checkout = CheckoutCaller::new(&here.client, &here.address).unwrap();
    let coupon = Some(Coupon { value: Some(Money { cents: 5 }) });
    let note = Some(Note { text: "ripe".to_owned() });
    let line = Line { unit: Unit::Piece.into(), note };
    let cart = Cart { lines: vec![line.clone()], coupon };
    assert_eq!(checkout.pay(&cart).unwrap(), Money { cents: 5 });
    assert_eq!(checkout.weigh(&line).unwrap(), line);
}

#[test]
fn types_of_other_packages_are_found() {
    let here = InLoop::serve(OrdersDispatcher::new(Shop));
    let orders = OrdersCaller::new(&here.client, &here.address).unwrap();
    let id = Id { number: 3 };
    let placed = orders.place(&Item { id: Some(id), ..Item::default() });
    assert_eq!(placed.unwrap(), id);
    assert_eq!(orders.watch(&id).unwrap().recv().unwrap().unwrap().id, Some(id));
}
