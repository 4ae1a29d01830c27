//! Isolated checkouts on real repositories, with the real git.

mod support;

mod cheats;
mod clean;
mod faults;
mod in_place;
mod life;
mod opened;
mod property;
mod protected;
mod repositories;
mod shims;
mod speed;
mod work;
