//! What the disk gives and what it refuses.

use super::*;

#[cfg(unix)]
#[test]
fn a_device_is_refused_before_it_is_read() {
    // Reading it to its end would never end.
    let error = Disk.read(Utf8Path::new("/dev/zero")).expect_err("refused");
    let found = NotRegular::of(&error).expect("why");
    assert_eq!(found.to_string(), "`/dev/zero` is a device, expected a regular file");
    assert!(NotRegular::of(&Disk.read(Utf8Path::new("/")).expect_err("a folder")).is_none());
    let missing = Disk.read(Utf8Path::new("/there/is/none")).expect_err("nothing there");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}
