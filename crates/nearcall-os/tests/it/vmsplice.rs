//! Pages handed to a pipe.

use nearcall_os::pipe;
use nearcall_os::vmsplice::SpliceBuffer;

#[test]
fn spliced_bytes_arrive_and_can_be_written_after_the_release() {
    let pipe = pipe::create().unwrap();
    let mut buffer = SpliceBuffer::create(8192).unwrap();
    buffer.slice_mut(0..5000).fill(3);
    assert_eq!(buffer.splice(&pipe.write, 0..5000).unwrap(), 5000);
    assert_eq!((buffer.handed_over(), buffer.free()), (5000, 5000..8192));
    let mut read = [0; 8192];
    assert_eq!(pipe::read(&pipe.read, &mut read).unwrap(), 5000);
    assert!(read[..5000].iter().all(|byte| *byte == 3));
    assert_eq!(pipe::queued_bytes(&pipe.read).unwrap(), 0);
    buffer.release(5000);
    buffer.slice_mut(0..8192).fill(4);
}

#[test]
fn a_write_to_a_full_pipe_is_none() {
    let pipe = pipe::create().unwrap();
    pipe::set_size_bytes(&pipe.write, 4096).unwrap();
    let mut buffer = SpliceBuffer::create(65_536).unwrap();
    let taken = buffer.try_splice(&pipe.write, 0..65_536).unwrap().unwrap();
    assert!(taken < 65_536, "one page was expected, {taken} bytes were taken");
    assert_eq!(buffer.handed_over(), taken);
    let rest = buffer.free();
    assert_eq!(buffer.try_splice(&pipe.write, rest).unwrap(), None);
}

#[test]
#[should_panic(expected = "handed over")]
fn writing_to_bytes_handed_over_panics() {
    let pipe = pipe::create().unwrap();
    let mut buffer = SpliceBuffer::create(4096).unwrap();
    buffer.splice(&pipe.write, 0..100).unwrap();
    buffer.slice_mut(99..200);
}
