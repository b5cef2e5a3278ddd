//! The binary `cardinal`: parses its arguments, runs one command, tells its exit code.

fn main() -> std::process::ExitCode {
    cardinal::cli::main()
}
