//! Command templates must not put texts into code: a shell would run what a prompt has in it.

/// What a caller or a model chooses. The other placeholders are paths of files that drawloom makes.
const TEXTS: [&str; 5] = ["{prompt}", "{system}", "{combined}", "{model}", "{directory}"];

/// Programs that take code as an argument, and the letters of the options before it.
const INTERPRETERS: &[(&str, &str)] = &[
    ("sh", "c"),
    ("ash", "c"),
    ("bash", "c"),
    ("csh", "c"),
    ("dash", "c"),
    ("fish", "cC"),
    ("flock", "c"),
    ("ksh", "c"),
    ("mksh", "c"),
    ("rbash", "c"),
    ("runuser", "c"),
    ("script", "c"),
    ("su", "c"),
    ("tcsh", "c"),
    ("zsh", "c"),
    ("env", "S"),
    ("bun", "ep"),
    ("lua", "e"),
    ("node", "ep"),
    ("perl", "eE"),
    ("php", "r"),
    ("python", "c"),
    ("ruby", "e"),
];

/// Long options with the same meaning.
const LONG: &[&str] =
    &["--command", "--init-command", "--split-string", "--session-command", "--eval", "--print", "--run"];

/// The number of an argument that is code and has a placeholder in it. An interpreter can stand behind other programs, as in `env sh -c`.
pub(crate) fn with_placeholder(command: &[String]) -> Option<usize> {
    command.iter().enumerate().find_map(|(at, word)| {
        let name = word.rsplit('/').next()?.trim_end_matches(|sign: char| sign.is_ascii_digit() || ".-".contains(sign));
        let (_, letters) = INTERPRETERS.iter().find(|(interpreter, _)| *interpreter == name)?;
        code(letters, &command[at + 1..]).map(|found| at + 1 + found)
    })
}

/// The number of the argument with code and a placeholder, of an interpreter with these arguments.
fn code(letters: &str, args: &[String]) -> Option<usize> {
    let (mut is_code, mut is_value) = (false, false);
    for (at, argument) in args.iter().enumerate() {
        let has_text = TEXTS.iter().any(|placeholder| argument.contains(placeholder));
        if std::mem::take(&mut is_value) {
            continue;
        }
        if let Some((name, _)) = argument.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            if LONG.contains(&name) && has_text {
                return Some(at);
            }
        } else if argument.starts_with("--") {
            is_code |= LONG.contains(&argument.as_str());
        } else if let Some(cluster) = argument.strip_prefix(['-', '+']).filter(|cluster| !cluster.is_empty()) {
            is_code |= cluster.contains(|letter| letters.contains(letter));
            if is_code && has_text {
                return Some(at);
            }
            // `-o errexit`
            is_value = cluster.ends_with(['o', 'O']);
        } else if is_code {
            // What follows are arguments of the code.
            return has_text.then_some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<usize> {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        with_placeholder(&words)
    }

    #[test]
    fn a_text_inside_code_is_found_behind_any_way_to_start_a_shell() {
        for (line, at) in [
            ("sh|-c|echo {prompt}", 2),
            ("/bin/bash|-lc|echo '{system}'", 2),
            ("bash|-c|-o|errexit|x {combined}", 4),
            ("bash|-o|pipefail|-ec|{prompt}", 4),
            ("env|-i|A=b|zsh|-c|{model}", 5),
            ("env|-S|sh -c {prompt}", 2),
            ("timeout|9|dash|-c|cd {directory}", 4),
            ("busybox|sh|-c|{prompt}", 3),
            ("fish|--command=echo {prompt}", 1),
            ("fish|--command|echo {prompt}", 2),
            ("ksh|-cecho {prompt}", 1),
            ("python3.12|-c|print('{prompt}')", 2),
            ("node|--eval|'{prompt}'", 2),
        ] {
            assert_eq!(found(line), Some(at), "{line}");
        }
    }

    #[test]
    fn a_text_that_is_an_argument_of_its_own_is_fine() {
        for line in [
            "sh|-c|echo \"$1\"|sh|{prompt}",
            "bash|-c|cat {prompt_file} {system_file}",
            "bash|run.sh|{prompt}",
            "my-cli|-c|{prompt}",
            "python3|tool.py|--prompt|{prompt}",
            "env|A=b|my-cli|{prompt}",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
