//! Hostile bytes against everything the proxy reads by hand: what it takes has one reading, and what
//! it passes on has that reading too.

mod hello;
mod http;
mod socks;
