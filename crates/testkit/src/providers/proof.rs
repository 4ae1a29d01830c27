//! Proofs that a text is what a server once said, for servers that remember nothing.

/// A number that depends on the model and the text and on nothing else, in any process and of any build.
pub(super) fn proof(model: &str, text: &str) -> String {
    let bytes = model.bytes().chain([0]).chain(text.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}
