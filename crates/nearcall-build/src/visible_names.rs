//! Writes the names of types and options in full where the parser would look in a package that the
//! file does not import.
//!
//! prost-reflect 0.16 looks the first part of `common.Id` up among the packages of all files that
//! it has read, from the innermost scope of the file outwards. protoc looks at the file and what it
//! imports, so that another package, such as `shop.common`, does not hide `common`.
//!
//! # Invariants
//!
//! - A name is written in full only if it is hidden so, and if it leads to a type or extension that
//!   the file may use. Any other is left to prost-reflect, which reports it as it is written.
//! - When a file is opened, all that it imports has been read, directly or not.
//!
//! **Not here:** names of one part, which prost-reflect looks up as protoc does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    ServiceDescriptorProto, UninterpretedOption,
};
use protox::file::{File, FileResolver};

/// Resolves files as `inner` does.
pub(crate) struct VisibleNames<R> {
    inner: R,
    read: RefCell<Read>,
}

/// The files that were read.
#[derive(Default)]
struct Read {
    /// What each declares, by the name of the file.
    declared: BTreeMap<String, Rc<Declared>>,
    /// The scopes of all of them.
    scopes: BTreeSet<String>,
    /// Those that were read for their names, until they are opened.
    ahead: BTreeMap<String, File>,
}

/// The full names that a file declares.
#[derive(Default)]
struct Declared {
    /// Its package and the packages around it, messages, enums and services.
    scopes: BTreeSet<String>,
    /// Messages, enums and extensions.
    named: BTreeSet<String>,
    public_imports: Vec<String>,
}

impl<R: FileResolver> VisibleNames<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, read: RefCell::default() }
    }

    /// Reads the files and all that they import. One that cannot be read is reported when it is
    /// opened.
    fn read_ahead(&self, names: &[String]) {
        let mut next = names.to_vec();
        while let Some(name) = next.pop() {
            if self.read.borrow().declared.contains_key(&name) {
                continue;
            }
            if let Ok(file) = self.inner.open_file(&name) {
                let mut read = self.read.borrow_mut();
                read.declare(&name, file.file_descriptor_proto());
                next.extend(file.file_descriptor_proto().dependency.iter().cloned());
                read.ahead.insert(name, file);
            }
        }
    }
}

impl Read {
    fn declare(&mut self, name: &str, file: &FileDescriptorProto) {
        let declared = Declared::new(file);
        self.scopes.extend(declared.scopes.iter().cloned());
        self.declared.insert(name.to_owned(), Rc::new(declared));
    }

    /// What a file may use: its own names, and those of its imports and of their public imports.
    fn visible(&self, name: &str, imports: &[String]) -> Vec<Rc<Declared>> {
        let mut next = [&[name.to_owned()], imports].concat();
        let mut seen = BTreeSet::new();
        let mut visible = Vec::new();
        while let Some(name) = next.pop() {
            if let Some(declared) = self.declared.get(&name)
                && seen.insert(name)
            {
                next.extend(declared.public_imports.iter().cloned());
                visible.push(Rc::clone(declared));
            }
        }
        visible
    }
}

impl<R: FileResolver> FileResolver for VisibleNames<R> {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.inner.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let ahead = self.read.borrow_mut().ahead.remove(name);
        let file = ahead.map_or_else(|| self.inner.open_file(name), Ok)?;
        let mut descriptor = file.file_descriptor_proto().clone();
        self.read.borrow_mut().declare(name, &descriptor);
        self.read_ahead(&descriptor.dependency);
        let read = self.read.borrow();
        let visible = read.visible(name, &descriptor.dependency);
        let mut walk = Walk { visible, all: &read.scopes, changed: false };
        walk.file(&mut descriptor);
        Ok(if walk.changed { File::from_file_descriptor_proto(descriptor) } else { file })
    }
}

impl Declared {
    fn new(file: &FileDescriptorProto) -> Self {
        let mut declared = Self::default();
        let package = file.package();
        let outer = package.match_indices('.').map(|(end, _)| package[..end].to_owned());
        declared.scopes.extend(outer.chain([package.to_owned()]));
        file.message_type.iter().for_each(|message| declared.add_message(package, message));
        declared.add_enums(package, &file.enum_type);
        declared.add_extensions(package, &file.extension);
        declared.scopes.extend(file.service.iter().map(|service| join(package, service.name())));
        let public = file.public_dependency.iter();
        let public = public.filter_map(|index| file.dependency.get(usize::try_from(*index).ok()?));
        declared.public_imports.extend(public.cloned());
        declared
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = join(scope, message.name());
        message.nested_type.iter().for_each(|nested| self.add_message(&name, nested));
        self.add_enums(&name, &message.enum_type);
        self.add_extensions(&name, &message.extension);
        self.scopes.insert(name.clone());
        self.named.insert(name);
    }

    fn add_enums(&mut self, scope: &str, enums: &[EnumDescriptorProto]) {
        let names = enums.iter().map(|enumeration| join(scope, enumeration.name()));
        for name in names {
            self.scopes.insert(name.clone());
            self.named.insert(name);
        }
    }

    fn add_extensions(&mut self, scope: &str, extensions: &[FieldDescriptorProto]) {
        self.named.extend(extensions.iter().map(|extension| join(scope, extension.name())));
    }
}

/// Goes through a file, and writes hidden names in full.
struct Walk<'a> {
    visible: Vec<Rc<Declared>>,
    /// The scopes of all files.
    all: &'a BTreeSet<String>,
    changed: bool,
}

impl Walk<'_> {
    fn file(&mut self, file: &mut FileDescriptorProto) {
        let package = file.package().to_owned();
        self.options(&package, file.options.as_mut().map(|all| &mut all.uninterpreted_option));
        file.message_type.iter_mut().for_each(|message| self.message(&package, message));
        self.enums(&package, &mut file.enum_type);
        self.fields(&package, &mut file.extension);
        file.service.iter_mut().for_each(|service| self.service(&package, service));
    }

    fn message(&mut self, scope: &str, message: &mut DescriptorProto) {
        let scope = join(scope, message.name());
        self.options(&scope, message.options.as_mut().map(|all| &mut all.uninterpreted_option));
        message.nested_type.iter_mut().for_each(|nested| self.message(&scope, nested));
        self.enums(&scope, &mut message.enum_type);
        self.fields(&scope, &mut message.field);
        self.fields(&scope, &mut message.extension);
        for oneof in &mut message.oneof_decl {
            self.options(&scope, oneof.options.as_mut().map(|all| &mut all.uninterpreted_option));
        }
        for range in &mut message.extension_range {
            self.options(&scope, range.options.as_mut().map(|all| &mut all.uninterpreted_option));
        }
    }

    fn fields(&mut self, scope: &str, fields: &mut [FieldDescriptorProto]) {
        for field in fields {
            self.name(scope, field.type_name.as_mut());
            self.name(scope, field.extendee.as_mut());
            self.options(scope, field.options.as_mut().map(|all| &mut all.uninterpreted_option));
        }
    }

    fn enums(&mut self, scope: &str, enums: &mut [EnumDescriptorProto]) {
        for one in enums {
            let scope = join(scope, one.name());
            self.options(&scope, one.options.as_mut().map(|all| &mut all.uninterpreted_option));
            for value in &mut one.value {
                let options = value.options.as_mut();
                self.options(&scope, options.map(|all| &mut all.uninterpreted_option));
            }
        }
    }

    fn service(&mut self, scope: &str, service: &mut ServiceDescriptorProto) {
        let scope = join(scope, service.name());
        self.options(&scope, service.options.as_mut().map(|all| &mut all.uninterpreted_option));
        for method in &mut service.method {
            self.name(&scope, method.input_type.as_mut());
            self.name(&scope, method.output_type.as_mut());
            self.options(&scope, method.options.as_mut().map(|all| &mut all.uninterpreted_option));
        }
    }

    fn options(&mut self, scope: &str, options: Option<&mut Vec<UninterpretedOption>>) {
        let parts = options.into_iter().flatten().flat_map(|option| &mut option.name);
        for part in parts.filter(|part| part.is_extension) {
            self.name(scope, Some(&mut part.name_part));
        }
    }

    fn name(&mut self, scope: &str, name: Option<&mut String>) {
        if let Some(name) = name
            && let Some(full) = self.resolve(scope, name)
        {
            *name = full;
            self.changed = true;
        }
    }

    /// The full name of a hidden one. The innermost scope that has its first part decides.
    fn resolve(&self, scope: &str, name: &str) -> Option<String> {
        let (first, _) = name.split_once('.').filter(|(first, _)| !first.is_empty())?;
        let (mut scope, mut is_hidden) = (scope, false);
        loop {
            let inner = join(scope, first);
            if self.visible.iter().any(|file| file.scopes.contains(&inner)) {
                let full = join(scope, name);
                let is_known = self.visible.iter().any(|file| file.named.contains(&full));
                return (is_hidden && is_known).then(|| format!(".{full}"));
            }
            is_hidden |= self.all.contains(&inner);
            scope = match scope.rsplit_once('.') {
                Some((outer, _)) => outer,
                None if scope.is_empty() => return None,
                None => "",
            };
        }
    }
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}
