//! Names for files that are being moved into place, or out of it.

use std::fmt::Write as _;

use rustix::{
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

/// A name with 128 random bits, which nobody can predict.
pub fn temporary_name() -> Result<String, Errno> {
    let mut bytes = [0_u8; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if got != bytes.len() {
        return Err(Errno::IO);
    }
    let mut name = String::with_capacity(43);
    name.push_str(".haft-");
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".tmp");
    Ok(name)
}
