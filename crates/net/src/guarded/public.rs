//! Which addresses belong to the public internet. Everything else may lead into the house.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not public: first address, length of the prefix.
const NOT_PUBLIC_4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // "this network"
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared by carriers
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, metadata of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// Blocks inside IPv6's global unicast that are not public.
const NOT_PUBLIC_6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo among them
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: an IPv4 address in disguise
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Where IPv6 has public addresses at all. Loopback, link-local, site-local, unique local, multicast, addresses that are
/// compatible with IPv4 and the local NAT64 prefix are all outside.
const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The well-known prefix of NAT64: on a network with IPv6 only, every IPv4 address is seen through it.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address belongs to the public internet. An IPv4 address inside an IPv6 one counts as what it is.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_4(address),
        IpAddr::V6(address) if within_6(address, NAT64) => {
            let [.., a, b, c, d] = address.octets();
            is_public_4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => {
            within_6(address, GLOBAL_UNICAST) && !NOT_PUBLIC_6.iter().any(|block| within_6(address, *block))
        }
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_4.iter().any(|(first, length)| (address.to_bits() ^ first.to_bits()) >> (32 - length) == 0)
}

fn within_6(address: Ipv6Addr, (first, length): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()) >> (128 - length) == 0
}
