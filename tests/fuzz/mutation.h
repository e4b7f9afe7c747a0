#pragma once

#include <random>
#include <string>
#include <vector>

namespace propagator::fuzz {

// Damages whole inputs as an editor, a cable or an enemy does: bits, bytes,
// numbers, ranges that are gone, doubled or from another input, a cut end. The
// same seed gives the same damage on every machine.
class Mutation {
 public:
  Mutation(std::vector<std::string> seeds, uint64_t seed)
      : seeds_(std::move(seeds)), random_(seed) {}

  std::string next();

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void damage(std::string& bytes);
  void replace_number(std::string& bytes);

  std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

}  // namespace propagator::fuzz
