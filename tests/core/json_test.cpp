#include "propagator/core/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace propagator {
namespace {

TEST(CoreJson, ReadsWhatIsJson) {
  const auto parsed = parse_json(R"({"a": [1, {"b": null}], "c": "d"})");
  EXPECT_EQ(parsed.dump(), R"({"a":[1,{"b":null}],"c":"d"})");
  EXPECT_TRUE(parse_json("").is_discarded());
  EXPECT_TRUE(parse_json("{\"a\": ").is_discarded());
  EXPECT_TRUE(parse_json("\"\xff\"").is_discarded());
}

TEST(CoreJson, WhatNestsTooDeeplyIsDiscardedNotAStackOverflow) {
  const auto nested = [](size_t levels) {
    return "{\"a\": " + std::string(levels, '[') + std::string(levels, ']') +
           "}";
  };
  const auto good = parse_json(nested(50));
  EXPECT_EQ(nlohmann::json(good).dump().size(), 106u);
  EXPECT_TRUE(parse_json(nested(100)).is_discarded());
  EXPECT_TRUE(parse_json(nested(1'000'000)).is_discarded());
}

TEST(CoreJson, NullIsANumberThatIsNotFinite) {
  EXPECT_EQ(number_of(2.5), 2.5);
  EXPECT_TRUE(std::isnan(number_of(nullptr)));
  EXPECT_THROW(number_of("2.5"), nlohmann::json::exception);
}

}  // namespace
}  // namespace propagator
