//! The shapes of the messages of an interface: which fields they have, and how large those are in
//! memory.
//!
//! They come from the description that generated code carries. Sizes are those of the structs that
//! prost generates on a 64-bit machine, rounded up; a type that `extern_path` puts in the place of
//! a generated one is taken to be as large as that would be.
//! **Invariants:** a shape is made once for each interface and thread, when its first long message
//! comes.
//! **Not here:** adding them up (`decoded_size.rs`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use super::{ALLOCATION_BYTES, ENTRY_BYTES, LIST_FIRST, Part, UNDESCRIBED_GROWTH};
use crate::interface::Interface;

/// The messages of an interface.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    messages: Vec<Shape>,
    methods: Vec<MethodTypes>,
    /// Most bytes that decoding allocates for each byte of a message, whichever it is.
    growth_max: usize,
}

#[derive(Debug)]
struct MethodTypes {
    id: u32,
    request: usize,
    reply: usize,
}

/// One message.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// The size of its struct.
    pub(super) bytes: usize,
    /// Sorted by their numbers.
    fields: Vec<Field>,
}

/// One field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    number: u32,
    /// Its place among the fields.
    pub(super) index: usize,
    /// The size of an element of a list or map; 0: it is neither.
    pub(super) element_bytes: usize,
    pub(super) content: Content,
}

/// What a field has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// A number of variable length, or a packed list of them.
    Number,
    /// A number of 4 or 8 bytes, or a packed list of them.
    Fixed,
    Text,
    /// Bytes, which a long message shares with the buffer that it lies in.
    Bytes,
    /// A message; in a box where it would contain itself.
    Message {
        shape: usize,
        boxed: bool,
    },
    /// Entries, each a message with a key and a value.
    Map {
        entry: usize,
    },
}

impl Shape {
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        // Most are numbered without gaps.
        let guess = self.fields.get((number as usize).wrapping_sub(1));
        guess.filter(|field| field.number == number).or_else(|| {
            let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
            self.fields.get(index)
        })
    }
}

impl Shapes {
    /// Returns the shape of a message. `None`: the description does not have it.
    pub(super) fn message(&self, method: u32, part: Part) -> Option<usize> {
        let types = self.methods.iter().find(|types| types.id == method)?;
        Some(match part {
            Part::Request => types.request,
            Part::Reply => types.reply,
        })
    }

    #[inline]
    pub(super) fn shape(&self, index: usize) -> &Shape {
        &self.messages[index]
    }

    /// Reads the description of an interface. What cannot be read has no shapes.
    fn new(interface: &Interface) -> Self {
        let Ok(set) = FileDescriptorSet::decode(interface.descriptor_set) else {
            return Self { growth_max: UNDESCRIBED_GROWTH, ..Self::default() };
        };
        let mut types = Types::default();
        for file in &set.file {
            types.add_all(file.package(), &file.message_type, file.syntax() == "proto3");
        }
        let messages: Vec<Shape> = (0..types.all.len()).map(|index| types.shape(index)).collect();
        let fields = messages.iter().flat_map(|shape| &shape.fields);
        let largest = fields.map(|field| growth_of(field, &messages)).max().unwrap_or(0);
        // A field has a key and a value of a byte each at least.
        let growth_max = largest.div_ceil(2).max(UNDESCRIBED_GROWTH);
        let mut methods = Vec::new();
        for file in &set.file {
            for service in &file.service {
                let name = full_name(file.package(), service.name());
                for method in service.method.iter().filter(|_| name == interface.name) {
                    let known = interface.methods.iter().find(|known| known.name == method.name());
                    let id = known.map(|known| known.id);
                    let found = (types.find(method.input_type()), types.find(method.output_type()));
                    if let (Some(id), (Some(request), Some(reply))) = (id, found) {
                        methods.push(MethodTypes { id, request, reply });
                    }
                }
            }
        }
        Self { messages, methods, growth_max }
    }
}

fn full_name(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// Returns the most bytes that are added up for one appearance of a field.
fn growth_of(field: &Field, messages: &[Shape]) -> usize {
    let first = match field.element_bytes {
        0 => 0,
        bytes => LIST_FIRST * bytes + ALLOCATION_BYTES,
    };
    first
        + match field.content {
            Content::Text | Content::Bytes => ALLOCATION_BYTES,
            Content::Message { shape, boxed: true } => messages[shape].bytes + ALLOCATION_BYTES,
            Content::Map { .. } => ENTRY_BYTES + 2 * field.element_bytes,
            Content::Message { .. } | Content::Number | Content::Fixed => 0,
        }
}

thread_local! {
    /// The address of the interface that was asked for last, and its bound.
    static LAST_BOUND: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// By the addresses of the interfaces, which live as long as the process.
    static KNOWN: RefCell<HashMap<usize, Rc<Shapes>>> = RefCell::default();
}

/// Returns the most bytes that decoding allocates for each byte of a message of an interface.
#[inline]
pub(super) fn growth_max(interface: &'static Interface) -> usize {
    let address = std::ptr::from_ref(interface).addr();
    match LAST_BOUND.get() {
        (last, bound) if last == address => bound,
        _ => {
            let bound = with(interface, |shapes| shapes.growth_max);
            LAST_BOUND.set((address, bound));
            bound
        }
    }
}

/// Returns what `read` makes of the shapes of an interface.
pub(super) fn with<R>(interface: &'static Interface, read: impl FnOnce(&Shapes) -> R) -> R {
    let address = std::ptr::from_ref(interface).addr();
    let known = KNOWN.with_borrow(|known| known.get(&address).map(Rc::clone));
    let shapes = known.unwrap_or_else(|| {
        let shapes = Rc::new(Shapes::new(interface));
        KNOWN.with_borrow_mut(|known| known.insert(address, Rc::clone(&shapes)));
        shapes
    });
    read(&shapes)
}

/// The messages of a description, by their full names.
#[derive(Default)]
struct Types<'a> {
    all: Vec<&'a DescriptorProto>,
    /// Whether a number of each that is no list is always there.
    is_proto3: Vec<bool>,
    by_name: HashMap<String, usize>,
    /// Sizes that are known.
    sizes: RefCell<HashMap<usize, usize>>,
}

impl<'a> Types<'a> {
    fn add_all(&mut self, scope: &str, messages: &'a [DescriptorProto], is_proto3: bool) {
        for message in messages {
            let name = full_name(scope, message.name());
            self.add_all(&name, &message.nested_type, is_proto3);
            self.by_name.insert(name, self.all.len());
            self.all.push(message);
            self.is_proto3.push(is_proto3);
        }
    }

    /// Returns the message of a name with a leading dot.
    fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name.trim_start_matches('.')).copied()
    }

    /// Returns the message that a field has.
    fn message_of(&self, field: &FieldDescriptorProto) -> Option<usize> {
        matches!(field.r#type(), Type::Message | Type::Group)
            .then(|| self.find(field.type_name()))?
    }

    /// Returns whether `message` is `wanted`, or has it in fields that are no lists.
    fn contains(&self, message: usize, wanted: usize, seen: &mut Vec<usize>) -> bool {
        if message == wanted {
            return true;
        }
        if seen.contains(&message) {
            return false;
        }
        seen.push(message);
        let fields = self.all[message].field.iter();
        let mut single = fields.filter(|field| field.label() != Label::Repeated);
        single.any(|field| {
            self.message_of(field).is_some_and(|inner| self.contains(inner, wanted, seen))
        })
    }

    fn shape(&self, index: usize) -> Shape {
        let mut fields: Vec<Field> =
            self.all[index].field.iter().map(|field| self.field(index, field)).collect();
        fields.sort_unstable_by_key(|field| field.number);
        for (index, field) in fields.iter_mut().enumerate() {
            field.index = index;
        }
        Shape { bytes: self.struct_bytes(index), fields }
    }

    fn field(&self, owner: usize, field: &FieldDescriptorProto) -> Field {
        let number = u32::try_from(field.number()).unwrap_or_default();
        let is_list = field.label() == Label::Repeated;
        let map = self.map_entry(field);
        let content = match (map, self.message_of(field), field.r#type()) {
            (Some(entry), ..) => Content::Map { entry },
            (None, Some(shape), _) => {
                let boxed = !is_list && self.contains(shape, owner, &mut Vec::new());
                Content::Message { shape, boxed }
            }
            (None, None, Type::String) => Content::Text,
            (None, None, Type::Bytes) => Content::Bytes,
            (None, None, Type::Fixed32 | Type::Sfixed32 | Type::Float) => Content::Fixed,
            (None, None, Type::Fixed64 | Type::Sfixed64 | Type::Double) => Content::Fixed,
            (None, None, _) => Content::Number,
        };
        let element_bytes = match (map, is_list) {
            (Some(entry), _) => self.all[entry].field.iter().map(|it| self.value_bytes(it)).sum(),
            (None, true) => self.value_bytes(field),
            (None, false) => 0,
        };
        Field { number, index: 0, element_bytes, content }
    }

    /// Returns the message of the entries, if the field is a map.
    fn map_entry(&self, field: &FieldDescriptorProto) -> Option<usize> {
        let entry = self.message_of(field).filter(|_| field.label() == Label::Repeated)?;
        let is_entry = |message: &DescriptorProto| {
            message.options.as_ref().is_some_and(|options| options.map_entry())
        };
        is_entry(self.all[entry]).then_some(entry)
    }

    /// Returns the size of the struct of a message: of its fields, one for each oneof.
    fn struct_bytes(&self, index: usize) -> usize {
        let known = self.sizes.borrow().get(&index).copied();
        known.unwrap_or_else(|| {
            let bytes = self.sum_fields(index);
            self.sizes.borrow_mut().insert(index, bytes);
            bytes
        })
    }

    fn sum_fields(&self, index: usize) -> usize {
        let message = self.all[index];
        let mut oneofs = vec![0; message.oneof_decl.len()];
        let mut bytes = 0;
        for field in &message.field {
            let of_oneof = field.oneof_index.filter(|_| !field.proto3_optional());
            let oneof = of_oneof.and_then(|index| oneofs.get_mut(usize::try_from(index).ok()?));
            let field_bytes = self.field_bytes(index, field);
            match oneof {
                Some(largest) => *largest = field_bytes.max(*largest),
                None => bytes += field_bytes,
            }
        }
        // Of a oneof there is one, with the number of its variant.
        let oneofs = oneofs.into_iter().filter(|largest| *largest > 0);
        (bytes + oneofs.map(|largest| largest + WORD_BYTES).sum::<usize>())
            .next_multiple_of(WORD_BYTES)
    }

    /// Returns the size of a field in the struct of `owner`.
    fn field_bytes(&self, owner: usize, field: &FieldDescriptorProto) -> usize {
        if field.label() == Label::Repeated {
            return if self.map_entry(field).is_some() { MAP_BYTES } else { LIST_BYTES };
        }
        match self.message_of(field) {
            Some(inner) if self.contains(inner, owner, &mut Vec::new()) => WORD_BYTES,
            Some(inner) => self.struct_bytes(inner) + WORD_BYTES,
            // A number that may be absent has a flag beside it.
            None if field.proto3_optional() || !self.is_proto3[owner] => {
                2 * self.value_bytes(field)
            }
            None => self.value_bytes(field),
        }
    }

    /// Returns the size of a value, as it is in a list.
    fn value_bytes(&self, field: &FieldDescriptorProto) -> usize {
        match field.r#type() {
            Type::Bool => 1,
            Type::Int32 | Type::Uint32 | Type::Sint32 | Type::Fixed32 | Type::Sfixed32 => 4,
            Type::Float | Type::Enum => 4,
            Type::Int64 | Type::Uint64 | Type::Sint64 | Type::Fixed64 | Type::Sfixed64 => 8,
            Type::Double => 8,
            Type::String => LIST_BYTES,
            Type::Bytes => BYTES_BYTES,
            Type::Message | Type::Group => {
                self.message_of(field).map_or(0, |inner| self.struct_bytes(inner))
            }
        }
    }
}

const WORD_BYTES: usize = 8;
/// The size of a `Vec` or `String`.
const LIST_BYTES: usize = 24;
/// The size of a `Bytes`.
const BYTES_BYTES: usize = 32;
/// The size of a `HashMap`.
const MAP_BYTES: usize = 48;
