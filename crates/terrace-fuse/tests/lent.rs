//! A file is lent after the kernel has dropped its pages: a program that reads it by the mount
//! afterwards sees what the borrower has written. With a bug planted, this test notices.

mod common;

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use common::{TestMount, can_mount};
use terrace_direct::{DirectFile, Mount};
use terrace_transport::planted::{Bug, plant};

const BLOCK: usize = 4096;

/// The first block of a file as the mount shows it: the kernel has its pages, and then the borrower
/// overwrites it.
fn read_after_a_direct_write(mount: &TestMount, name: &str) -> Vec<u8> {
    let path = mount.join(name);
    std::fs::write(&path, [1; 2 * BLOCK]).expect("a write");
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let read = || {
        let mut bytes = vec![0; BLOCK];
        file.read_exact_at(&mut bytes, 0).expect("a read");
        bytes
    };
    assert!(read() == [1; BLOCK], "what was written");
    let metadata = file.metadata().expect("its attributes");
    let daemon = Arc::new(Mount::of(file.as_fd(), metadata.dev()).expect("a daemon that lends"));
    let direct = DirectFile::new(daemon, metadata.ino(), |_| 1);
    assert_eq!(direct.write_at(Some(0), &[2; BLOCK]), Ok(0), "the write goes direct");
    read()
}

#[test]
fn the_kernel_has_no_pages_of_a_file_that_is_lent() {
    if !can_mount("the_kernel_has_no_pages_of_a_file_that_is_lent") {
        return;
    }
    let mount = TestMount::lending();
    assert!(read_after_a_direct_write(&mount, "dropped") == [2; BLOCK], "old bytes");
    plant(Some(Bug::PagesNotDropped));
    let found = read_after_a_direct_write(&mount, "kept");
    plant(None);
    assert!(found == [1; BLOCK], "the planted bug is not found");
    mount.finish();
}
