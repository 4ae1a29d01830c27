//! What the system takes as arguments of a program: a prompt in an argument can be longer.

use std::collections::BTreeMap;

use rustix::process::{Resource, getrlimit};

use crate::error::Error;

/// The longest argument of a program on Linux, in bytes, without its end.
const MAX_ARGUMENT: usize = 128 * 1024 - 1;
/// Least and most bytes of all arguments and variables on Linux; between them it is a quarter of the limit of the stack.
const SPACE: (u64, u64) = (128 * 1024, 6 * 1024 * 1024);
/// Bytes that are left for what the launcher adds.
const RESERVED: usize = 32 * 1024;
/// Bytes that the system adds to each argument and variable: its end, and a pointer to it.
const EACH: usize = 1 + size_of::<usize>();

/// Refuses arguments that the system would refuse.
pub(crate) fn check(program: &str, args: &[String], environment: &BTreeMap<String, String>) -> Result<(), Error> {
    if let Some(bytes) = args.iter().map(String::len).find(|bytes| *bytes > MAX_ARGUMENT) {
        return Err(Error::LongArgument { bytes, most: MAX_ARGUMENT });
    }
    let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    let space = usize::try_from((stack / 4).clamp(SPACE.0, SPACE.1)).unwrap_or(usize::MAX);
    let variables = environment.iter().map(|(name, value)| name.len() + 1 + value.len() + EACH);
    // The system counts the name of the program twice.
    let words = args.iter().map(|argument| argument.len() + EACH).chain([2 * (program.len() + EACH)]);
    let bytes: usize = words.chain(variables).sum();
    match bytes > space.saturating_sub(RESERVED) {
        true => Err(Error::LongArguments { bytes, most: space - RESERVED }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use drawloom_contract::failure::Explain as _;

    use super::*;

    #[test]
    fn what_passes_can_be_started_and_what_does_not_has_one_error() {
        let argument = "x".repeat(MAX_ARGUMENT);
        let of = |count: usize| vec![argument.clone(); count];
        let variables = BTreeMap::from([("NAME".to_owned(), "value".to_owned())]);
        let most = (1..100).take_while(|count| check("/bin/true", &of(*count), &variables).is_ok()).last();
        let most = most.expect("one argument passes");
        let started = std::process::Command::new("/bin/true").args(of(most)).env_clear().envs(&variables).status();
        assert!(started.expect("it starts").success());
        for args in [of(most + 1), vec!["x".repeat(MAX_ARGUMENT + 1)]] {
            let refused = check("/bin/true", &args, &variables).expect_err("too long");
            assert_eq!(refused.code(), "long_argument");
            assert!(refused.hint().is_some_and(|hint| hint.contains("{prompt_file}")));
        }
    }
}
