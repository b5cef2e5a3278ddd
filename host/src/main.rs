//! The binary `cardinal`: parses its arguments, runs one command, tells its exit code.

/// A request makes some thirty small blocks that often end on another thread; the system's allocator spends a tenth of
/// the processor on that. A plugin keeps the allocator that it was built with: no block crosses the border.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cardinal::cli::main()
}
