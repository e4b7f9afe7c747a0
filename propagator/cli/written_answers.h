#pragma once

#include <string>
#include <vector>

namespace propagator::cli {

// The file beside the program with what it prints for help and lists, so that
// start.cpp answers without libtorch: texts one after the other, each under a
// heading with the words that ask for it.
constexpr const char* kAnswersFile = "propagator.answers";
constexpr char kAnswerBegins = '\f';
std::string answer_heading(const std::vector<std::string>& words);

// The configurations and problems that lists are made of, with what they say
// that they are: the text under the heading of no words.
std::string listed_files();

}  // namespace propagator::cli
