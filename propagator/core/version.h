#pragma once

#include <string>
#include <string_view>

namespace propagator {

extern const char* const kVersion;  // "0.1.0"
// The commit of the sources that the program was built from: "c5750ba090ac";
// with + behind it where they were changed since; empty if nobody knows.
extern const char* const kCommit;

// Both, as results have them: "0.1.0 c5750ba090ac".
std::string code_version();

// Whether `code`, written as above, is what everybody can build: the sources
// of a commit, unchanged.
bool names_a_commit(std::string_view code);

// UsageError if this program is of no commit, and what it would write is to be
// no draft either.
void expect_a_commit(bool draft);

// As pages show it: "0.1.0 c5750ba090ac+ (changed sources)".
std::string code_text(std::string_view code);

}  // namespace propagator
