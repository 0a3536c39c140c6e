//! Hostile bytes against everything the proxy parses by hand: what it accepts has one reading, and
//! what it passes on has that reading too.

mod hello;
mod http;
mod socks;
