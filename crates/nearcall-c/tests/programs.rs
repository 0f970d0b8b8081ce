//! Programs in C and C++ that call and serve through the library.
//!
//! **Invariants:** a program that a test starts ends with the test.
//! **Not here:** what they do (`c/streams.c`, `cpp/streams.cpp`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test reports what it skips")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nearcall::Client;
use nearcall::dynamic::{DynamicCaller, Encoded};
use nearcall_testkit::directory::Directory;
use nearcall_testkit::home::ThermostatCaller;
use nearcall_testkit::streams::{Item, Plan, StreamsCaller};
use nearcall_testkit::support::unique_address;

use self::Language::{C, Cpp};

/// Longest wait of one step: only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A language, and the program in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
}

impl Language {
    /// Compiles `c/streams.c` or `cpp/streams.cpp`; `None` without a compiler.
    fn program(self) -> Option<&'static Path> {
        static PROGRAMS: [OnceLock<Option<PathBuf>>; 2] = [const { OnceLock::new() }; 2];
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let (program, name, source) = match self {
            C => (&PROGRAMS[0], "streams-cc", "c/streams.c"),
            Cpp => (&PROGRAMS[1], "streams-c++", "cpp/streams.cpp"),
        };
        program.get_or_init(|| self.compile(name, &tests.join(source), &[])).as_deref()
    }

    /// Compiles a program by the compiler that is the default.
    fn compile(self, name: &str, source: &Path, more: &[&str]) -> Option<PathBuf> {
        let (compiler, standard) = match self {
            C => ("cc", "-std=c11"),
            Cpp => ("c++", "-std=c++17"),
        };
        compile_by(compiler, name, source, &[&[standard], more].concat())
    }
}

/// Compiles a program, beside this test, where Cargo has put the library; `None` without that
/// compiler.
fn compile_by(compiler: &str, name: &str, source: &Path, more: &[&str]) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = directory.join(name);
    let made = directory.join(format!("{name}.{}", std::process::id()));
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]);
    command.args(more).arg("-I").arg(root.join("include")).arg(source);
    command.arg("-o").arg(&made).arg("-L").arg(&directory).args(["-lnearcall_c", "-ldl"]);
    command.arg(format!("-Wl,-rpath,{}", directory.display()));
    let Ok(output) = command.output() else {
        println!("SKIPPED: there is no compiler `{compiler}` here");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Another run of these tests may start the same at this time.
    fs::rename(made, &program).unwrap();
    Some(program)
}

/// A program that was started.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (give, lines) = mpsc::channel();
        let from = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            from.lines().map_while(Result::ok).all(|line| give.send(line).is_ok());
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the program says nothing")
    }

    /// Ends its input, upon which it ends.
    fn finish(mut self) {
        drop(self.child.stdin.take());
        // Its output ends with it.
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        let status = self.child.try_wait().unwrap();
        let status = status.unwrap_or_else(|| self.child.wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a service; returns it and its address.
fn serve(program: &Path, directory: &Directory, address: &str) -> (Program, String) {
    let set = directory.0.join("streams.bin");
    fs::write(&set, StreamsCaller::INTERFACE.descriptor_set).unwrap();
    let server = Program::start(program, &["server", address, set.to_str().unwrap()]);
    let address = server.line().strip_prefix("ready ").unwrap().to_owned();
    (server, address)
}

fn pair_over(address: &str, via: &str, [caller, callee]: [Language; 2]) {
    let (Some(server), Some(client)) = (callee.program(), caller.program()) else { return };
    let directory = Directory::new();
    let (server, address) = serve(server, &directory, address);
    // The service in C++ does more, which only the client in C++ calls.
    let verb = if (caller, callee) == (Cpp, C) { "client-of-c" } else { "client" };
    let client = Program::start(client, &[verb, &format!("{address}{via}")]);
    assert_eq!(client.line(), "called");
    server.finish();
    client.finish();
}

#[test]
fn c_calls_c_over_shared_memory() {
    pair_over(&unique_address(), "", [C, C]);
}

#[test]
fn c_calls_c_that_it_trusts() {
    pair_over(&unique_address(), "?trust=same-user", [C, C]);
}

#[test]
fn c_calls_c_over_a_unix_socket() {
    pair_over(&unique_address(), "?via=unix-stream", [C, C]);
}

#[test]
fn c_calls_c_over_tcp() {
    pair_over("tcp://127.0.0.1:0", "", [C, C]);
}

#[test]
fn c_calls_cpp() {
    pair_over(&unique_address(), "", [C, Cpp]);
}

#[test]
fn cpp_calls_c() {
    pair_over(&unique_address(), "", [Cpp, C]);
}

#[test]
fn cpp_calls_cpp_over_shared_memory() {
    pair_over(&unique_address(), "", [Cpp, Cpp]);
}

#[test]
fn cpp_calls_cpp_over_a_unix_socket() {
    pair_over(&unique_address(), "?via=unix-stream", [Cpp, Cpp]);
}

#[test]
fn cpp_calls_cpp_over_tcp() {
    pair_over("tcp://127.0.0.1:0", "", [Cpp, Cpp]);
}

#[test]
fn rust_calls_c() {
    rust_calls(C);
}

#[test]
fn rust_calls_cpp() {
    rust_calls(Cpp);
}

fn rust_calls(language: Language) {
    let (Some(program), directory) = (language.program(), Directory::new()) else { return };
    let (server, address) = serve(program, &directory, &unique_address());
    let client = Client::new();
    let caller = StreamsCaller::new(&client, &address).unwrap();
    let item = |number| Item { number, ..Item::default() };
    assert_eq!(caller.say(&item(7)).unwrap(), item(7));
    let plan = Plan { items: 1000, ..Plan::default() };
    let items: Result<Vec<_>, _> = caller.count(&plan).unwrap().collect();
    assert!(items.unwrap().into_iter().eq((0..1000).map(item)));
    let dynamic = DynamicCaller::new(&client, &address, "streams.v1.Streams").unwrap();
    let reply = dynamic.call("Say", &item(8)).unwrap();
    assert_eq!(reply, Encoded::new(&item(8)).unwrap());
    drop((caller, dynamic));
    server.finish();
}

/// With the compilers that are here, by every standard and without exceptions.
#[test]
fn the_header_for_cpp_compiles_without_warnings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = Directory::new();
    let source = directory.0.join("all.cpp");
    fs::write(&source, "#include \"nearcall_server.hpp\"\n#include \"nearcall.hpp\"\n").unwrap();
    for compiler in ["c++", "g++", "clang++"] {
        for more in ["-std=c++17", "-std=c++20", "-fno-exceptions"] {
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", more, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic"]);
            command.args(["-Wshadow", "-Wconversion", "-Werror", "-I"]).arg(root.join("include"));
            let Ok(output) = command.arg(&source).output() else { continue };
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} {more}: {text}");
        }
    }
}

/// By every compiler that is here.
#[test]
fn coroutines_of_cpp_await_calls_and_streams() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cpp/coroutines.cpp");
    let Some(server) = Cpp.program() else { return };
    for compiler in ["g++", "clang++"] {
        let name = format!("coroutines-{compiler}");
        let program = compile_by(compiler, &name, &source, &["-std=c++20"]);
        let Some(client) = program else { continue };
        let directory = Directory::new();
        let (server, address) = serve(server, &directory, &unique_address());
        // Where `serve` has written it.
        let set = directory.0.join("streams.bin");
        let client = Program::start(&client, &[&address, set.to_str().unwrap()]);
        assert_eq!(client.line(), "called");
        client.finish();
        server.finish();
    }
}

#[test]
fn what_was_made_before_a_fork_is_an_error_after_it() {
    let Some(program) = C.program() else { return };
    let directory = Directory::new();
    let (server, address) = serve(program, &directory, &unique_address());
    let forking = Program::start(program, &["fork", &address]);
    assert_eq!(forking.line(), "called");
    forking.finish();
    server.finish();
}

#[test]
fn handles_of_another_copy_of_the_library_are_none() {
    let (Some(program), directory) = (C.program(), Directory::new()) else { return };
    let copy = directory.0.join("libcopy.so");
    fs::copy(program.with_file_name("libnearcall_c.so"), &copy).unwrap();
    Program::start(program, &["copies", copy.to_str().unwrap()]).finish();
}

#[test]
fn what_no_program_should_do_is_an_error() {
    for program in [C, Cpp].into_iter().filter_map(Language::program) {
        Program::start(program, &["misuse"]).finish();
    }
}

/// Those are the programs of a reader of the page.
#[test]
fn the_programs_of_the_page_do_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/guides/c.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks: Vec<_> = page.split("```c\n").skip(1).map(|it| it.split("```").next()).collect();
    let [Some(server), Some(client)] = blocks[..] else { panic!("two programs") };
    let directory = Directory::new();
    let [server, client] = [("room-c", server), ("set-c", client)].map(|(name, text)| {
        let source = directory.0.join(format!("{name}.c"));
        fs::write(&source, text).unwrap();
        C.compile(name, &source, &[])
    });
    let (Some(server), Some(client)) = (server, client) else { return };
    let set = directory.0.join("room.binpb");
    fs::write(&set, ThermostatCaller::INTERFACE.descriptor_set).unwrap();
    let address = unique_address();
    let server = Program::start(&server, &[&address, set.to_str().unwrap()]);
    assert_eq!(server.line(), "serving");
    let set_to = |celsius| {
        let output = Command::new(&client).args([&*address, celsius]).output().unwrap();
        let texts = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code(), texts.concat())
    };
    assert_eq!(set_to("21.5"), (Some(0), "18.0 before\n".to_owned()));
    assert_eq!(set_to("90"), (Some(1), "OUT_OF_RANGE: this is no sauna\n".to_owned()));
    assert_eq!(set_to("20"), (Some(0), "21.5 before\n".to_owned()));
}
