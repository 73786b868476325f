//! The launches of nodes that run together; see `fusion.rs` for which do.

use super::{Call, shape, update};
use crate::exec::cuda::fusion::Kind;
use crate::exec::cuda::launch::Launches;

/// Makes the launches of a group; false where there is no kernel for it.
pub fn run_group(kind: Kind, calls: &[Call<'_>], launches: &mut Launches) -> bool {
    launches.begin_node();
    match kind {
        Kind::Casts => update::casts(calls, launches),
        Kind::Updates => update::updates(calls, launches),
        Kind::Commits => update::commits(calls, launches),
        Kind::Join => shape::join(calls, launches),
    }
}
