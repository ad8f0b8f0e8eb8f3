//! What kind of place an IP address leads to.
//!
//! Owns the ranges. Refuses to decide whether a request may go there: a rule does.
//!
//! **Invariant:** what isn't known to be an ordinary address of the Internet is never [`Kind::Public`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What lies behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A host of the Internet.
    Public,
    /// This machine.
    Loopback,
    /// A network that isn't the Internet: private, link-local, shared, reserved, for documentation.
    Private,
    /// An address that stands for an IPv4 address, or hands out a cloud machine's credentials. Only a rule that
    /// spells it out leads there.
    Special,
    /// No single host: unspecified, multicast, broadcast.
    Nowhere,
}

/// Where clouds tell a machine its credentials.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// What kind of place an address leads to.
pub(super) fn kind(address: IpAddr) -> Kind {
    if METADATA.contains(&address) {
        return Kind::Special;
    }
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    match address.octets() {
        [0, ..] | [224..=255, ..] => Kind::Nowhere,
        [127, ..] => Kind::Loopback,
        // Private, shared (carrier-grade NAT), link-local.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [169, 254, ..] => {
            Kind::Private
        }
        // Protocol assignments, 6to4 relays, benchmarks, documentation.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Kind::Private
        }
        _ => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Nowhere,
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Loopback,
        // IPv4-compatible, -mapped and -translated.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Kind::Special,
        // NAT64, also for local use; 6to4; Teredo.
        [0x64, 0xff9b, 0 | 1, ..] | [0x2002, ..] | [0x2001, 0, ..] => Kind::Special,
        [0xff00..=0xffff, ..] => Kind::Nowhere,
        // Documentation; the rest of 2001::/23 is for protocols.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 1..=0x1ff, ..] => Kind::Private,
        [0x2000..=0x3fff, ..] => Kind::Public,
        // Unique local, link-local, site-local, and whatever isn't handed out yet.
        _ => Kind::Private,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P05: every range that isn't the Internet is known as such, however it is written.
    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let table = [
            (Kind::Public, "1.1.1.1 93.184.216.34 172.15.0.1 172.32.0.1 100.63.0.1 100.128.0.1 192.0.1.1"),
            (Kind::Public, "2606:4700::1111 2a00:1450::1 2001:4860:4860::8888"),
            (Kind::Loopback, "127.0.0.1 127.255.255.254 ::1"),
            (Kind::Private, "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 169.254.1.1"),
            (Kind::Private, "192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.7 203.0.113.7 192.88.99.1"),
            (Kind::Private, "fc00::1 fd12::1 fe80::1 febf::1 fec0::1 2001:db8::1 3fff::1 100::1 4000::1"),
            (Kind::Special, "169.254.169.254 169.254.170.2 100.100.100.200 fd00:ec2::254"),
            (Kind::Special, "::ffff:127.0.0.1 ::ffff:1.1.1.1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1"),
            (Kind::Special, "2002:7f00:1::1 2001::1 ::ffff:0:127.0.0.1"),
            (Kind::Nowhere, "0.0.0.0 0.1.2.3 224.0.0.1 240.0.0.1 255.255.255.255 :: ff02::1"),
        ];
        for (expected, addresses) in table {
            for address in addresses.split(' ') {
                assert_eq!(kind(address.parse().unwrap()), expected, "{address}");
            }
        }
    }
}
