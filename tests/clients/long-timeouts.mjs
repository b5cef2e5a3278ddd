// Loaded before the conformance suite, which gives single exchanges between 500 and 1500 ms: on a busy machine they take
// longer. What it checks is the same.
const { setTimeout: set } = globalThis;
const long = (handler, ms, ...rest) => set(handler, ms >= 500 && ms <= 1_500 ? ms * 4 : ms, ...rest);
globalThis.setTimeout = Object.defineProperties(long, Object.getOwnPropertyDescriptors(set));
