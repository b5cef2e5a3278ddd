//! Which network addresses a picture may be read from.
//!
//! Addresses of pictures come from other people's data, and the host stands inside somebody's network: without this a
//! "picture" could be the cloud's metadata service or a neighbour's database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far the plugin may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Internet,
    /// The operator's own machine and networks too (setting `allow_private_addresses`).
    PrivateNetworks,
}

/// Why an address is out of reach, in words that follow "is".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its address is {0}")]
pub(crate) struct OutOfReach(pub &'static str);

/// A range of addresses that is not the internet.
struct Range {
    first: Ipv6Addr,
    prefix: u8,
    /// The setting opens it.
    private: bool,
    what: &'static str,
}

/// The IANA registries of special-purpose addresses, and the metadata services that hide in
/// ordinary ranges. The first match counts. IPv4 stands in its IPv6-mapped form.
const SPECIAL: [Range; 31] = [
    v4([100, 100, 100, 200], 32, false, "a cloud metadata service"),
    v4([168, 63, 129, 16], 32, false, "a cloud metadata service"),
    v4([0, 0, 0, 0], 8, false, "no address of a machine"),
    v4([10, 0, 0, 0], 8, true, "in a private network"),
    v4([100, 64, 0, 0], 10, true, "in a provider's private network"),
    v4([127, 0, 0, 0], 8, true, "this machine itself"),
    v4([169, 254, 0, 0], 16, false, "link-local or a cloud metadata service"),
    v4([172, 16, 0, 0], 12, true, "in a private network"),
    v4([192, 0, 0, 0], 24, false, "reserved"),
    v4([192, 0, 2, 0], 24, false, "reserved for documentation"),
    v4([192, 31, 196, 0], 24, false, "reserved"),
    v4([192, 52, 193, 0], 24, false, "reserved"),
    v4([192, 88, 99, 0], 24, false, "reserved"),
    v4([192, 168, 0, 0], 16, true, "in a private network"),
    v4([192, 175, 48, 0], 24, false, "reserved"),
    v4([198, 18, 0, 0], 15, false, "reserved for tests of networks"),
    v4([198, 51, 100, 0], 24, false, "reserved for documentation"),
    v4([203, 0, 113, 0], 24, false, "reserved for documentation"),
    v4([224, 0, 0, 0], 4, false, "a multicast address"),
    v4([240, 0, 0, 0], 4, false, "reserved"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, true, "this machine itself"),
    v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254], 128, false, "a cloud metadata service"),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, false, "a cloud metadata service"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, true, "in a private network"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, false, "link-local"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, false, "a multicast address"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, false, "reserved"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, false, "reserved for documentation"),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, false, "a tunnel into IPv4"),
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, false, "reserved"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, false, "reserved for documentation"),
];

/// The only part of IPv6 that is given out for the internet at large.
const INTERNET_V6: Range = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, false, "");

/// `64:ff9b::/96`: how a network without IPv4 reaches it (NAT64).
const NAT64: Range = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, false, "");

/// To be asked about the very address that is connected to, after the name was resolved.
pub(crate) fn check(address: IpAddr, reach: Reach) -> Result<(), OutOfReach> {
    let address = mapped(address);
    if let Some(range) = SPECIAL.iter().find(|range| range.contains(address)) {
        return if range.private && reach == Reach::PrivateNetworks { Ok(()) } else { Err(OutOfReach(range.what)) };
    }
    if address.to_ipv4_mapped().is_some() || INTERNET_V6.contains(address) {
        Ok(())
    } else {
        Err(OutOfReach("reserved"))
    }
}

/// IPv4, however it is wrapped, as IPv4-mapped IPv6: one form to compare.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) if NAT64.contains(address) => {
            let [.., a, b, c, d] = address.octets();
            Ipv4Addr::new(a, b, c, d).to_ipv6_mapped()
        }
        IpAddr::V6(address) => address,
    }
}

impl Range {
    fn contains(&self, address: Ipv6Addr) -> bool {
        let mask = u128::MAX << (128 - u32::from(self.prefix));
        address.to_bits() & mask == self.first.to_bits()
    }
}

const fn v4([a, b, c, d]: [u8; 4], prefix: u8, private: bool, what: &'static str) -> Range {
    let first = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped();
    Range { first, prefix: 96 + prefix, private, what }
}

const fn v6(segments: [u16; 8], prefix: u8, private: bool, what: &'static str) -> Range {
    let [a, b, c, d, e, f, g, h] = segments;
    let first = Ipv6Addr::new(a, b, c, d, e, f, g, h);
    Range { first, prefix, private, what }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Reach, check};

    #[test]
    fn only_the_setting_opens_private_networks_and_nothing_opens_the_rest() {
        let allowed = |address: &str, reach| check(address.parse().unwrap(), reach).is_ok();
        for address in ["1.1.1.1", "172.32.0.0", "2606:4700:4700::1111", "64:ff9b::101:101"] {
            assert!(allowed(address, Reach::Internet), "{address}");
        }
        for address in ["127.0.0.1", "10.0.0.1", "192.168.1.1", "::1", "fd12::1", "::ffff:127.0.0.1", "64:ff9b::a00:1"]
        {
            assert!(!allowed(address, Reach::Internet) && allowed(address, Reach::PrivateNetworks), "{address}");
        }
        for address in ["0.0.0.0", "169.254.169.254", "fe80::1", "fd00:ec2::254", "224.0.0.1", "::ffff:169.254.169.254"]
        {
            assert!(!allowed(address, Reach::PrivateNetworks), "{address}");
        }
    }
}
