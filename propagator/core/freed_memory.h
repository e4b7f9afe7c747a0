#pragma once

namespace propagator {

// Keeps memory that is freed for what is allocated next, for the life of the
// process. Tensors of a step are as large as those of the step before it: to
// give their pages back to the system and have them cleared again took a third
// of a step on a CPU. For a program to call at its start; a library that others
// link leaves that to them.
void keep_freed_memory();

}  // namespace propagator
