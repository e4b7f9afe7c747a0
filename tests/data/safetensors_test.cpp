#include "propagator/data/safetensors.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::thrown;

// The format by hand: length of the header in 8 bytes, header, data.
std::string file_of(const std::string& header, const std::string& data,
                    int64_t extra_length = 0) {
  std::string bytes;
  uint64_t length = header.size() + static_cast<uint64_t>(extra_length);
  for (int i = 0; i < 8; ++i, length >>= 8) {
    bytes += static_cast<char>(length & 0xff);
  }
  return bytes + header + data;
}

// One tensor "a" that says these things of itself.
std::string one(const std::string& dtype, const std::string& shape,
                const std::string& offsets, size_t data_bytes) {
  return file_of(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape +
                     R"(,"data_offsets":)" + offsets + "}}",
                 std::string(data_bytes, '\0'));
}

std::string problem(const std::string& bytes) {
  return thrown<DataError>([&] { from_safetensors(bytes, "x.st"); });
}

// Bit for bit, NaN included.
void expect_same(const torch::Tensor& a, const torch::Tensor& b) {
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  ASSERT_EQ(a.sizes(), b.sizes());
  const auto x = a.contiguous(), y = b.contiguous();
  const auto bytes = [](const torch::Tensor& t) {
    return std::string(static_cast<const char*>(t.data_ptr()), t.nbytes());
  };
  EXPECT_EQ(bytes(x), bytes(y));
}

Safetensors round_trip(const Safetensors& content) {
  return from_safetensors(to_safetensors(content), "x.st");
}

TEST(DataSafetensors, EveryTypeComesBack) {
  const auto x = torch::tensor({0.0, -1.5, 3.25, 100.0}, torch::kFloat64);
  for (const auto type :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
        torch::kInt64, torch::kInt32, torch::kInt16, torch::kInt8,
        torch::kUInt8, torch::kBool}) {
    const auto value = x.abs().to(type);
    const auto again = round_trip({{{"x", value}}, {}});
    expect_same(again.tensors.at("x"), value);
  }
}

TEST(DataSafetensors, EveryShapeComesBack) {
  Safetensors content;
  content.tensors["scalar"] = torch::tensor(2.5);
  content.tensors["cube"] = testing::random({2, 3, 4}, "cube");
  content.tensors["turned"] = testing::random({5, 3}, "turned").t();
  content.tensors["odd"] = torch::tensor({1, 2, 3}, torch::kUInt8);
  content.tensors["nan"] = torch::tensor({NAN, -INFINITY, -0.0f});
  content.tensors["empty"] = torch::empty({0, 3});
  const auto again = round_trip(content);
  ASSERT_EQ(again.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    SCOPED_TRACE(name);
    expect_same(again.tensors.at(name), tensor);
  }
}

TEST(DataSafetensors, EmptyTensorComesBackAlone) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{0}, {0, 3}, {3, 0}, {100, 0, 7}}) {
    const auto value = torch::empty(shape);
    const auto again = round_trip({{{"x", value}}, {}});
    expect_same(again.tensors.at("x"), value);
  }
  EXPECT_TRUE(round_trip({}).tensors.empty());
}

TEST(DataSafetensors, MetadataComesBack) {
  const std::map<std::string, std::string> metadata = {
      {"", "empty"}, {"json", R"({"a": "b\n"})"}, {"step", "17"}, {"ü", "é"}};
  const auto again = round_trip({{{"x", torch::ones(1)}}, metadata});
  EXPECT_EQ(again.metadata, metadata);
  EXPECT_EQ(again.tensors.size(), 1);
}

TEST(DataSafetensors, FileComesBack) {
  const testing::TemporaryFolder folder;
  const auto value = testing::random({3, 2}, "file");
  save_safetensors(folder / "a.st", {{{"x", value}}, {}});
  expect_same(load_safetensors(folder / "a.st").tensors.at("x"), value);
  EXPECT_THROW(load_safetensors(folder / "none.st"), FileError);
}

TEST(DataSafetensors, ReadsBytesMadeByHand) {
  const std::string header =
      R"({"b": {"dtype": "I16", "shape": [1, 2], "data_offsets": [8, 12]},)"
      R"( "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},)"
      R"( "__metadata__": {"by": "hand"}}   )";
  // 1.5f, -2.0f, 258, -1: little endian.
  const std::string data(
      "\x00\x00\xc0\x3f\x00\x00\x00\xc0"
      "\x02\x01\xff\xff",
      12);
  const auto content = from_safetensors(file_of(header, data), "x.st");
  ASSERT_EQ(content.tensors.size(), 2);
  expect_same(content.tensors.at("a"), torch::tensor({1.5f, -2.0f}));
  expect_same(content.tensors.at("b"),
              torch::tensor({258, -1}, torch::kInt16).view({1, 2}));
  EXPECT_EQ(content.metadata.at("by"), "hand");
}

TEST(DataSafetensors, WritesBytesAsByHand) {
  const auto bytes =
      to_safetensors({{{"w", torch::tensor({1.0f, -2.0f})}}, {{"k", "v"}}});
  // 79 characters of header, a space to 80 = 0x50; then 1.0f and -2.0f.
  const std::string expected =
      std::string("\x50\0\0\0\0\0\0\0", 8) + R"({"__metadata__":{"k":"v"},)" +
      R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}})" + " " +
      std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  EXPECT_EQ(bytes, expected);
}

TEST(DataSafetensors, EveryTruncationIsDamage) {
  const auto bytes = to_safetensors(
      {{{"a", torch::ones({2, 3})}, {"b", torch::ones(1)}}, {{"k", "v"}}});
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THROW(from_safetensors(bytes.substr(0, n), "x.st"), DataError) << n;
  }
  EXPECT_NO_THROW(from_safetensors(bytes, "x.st"));
  EXPECT_THROW(from_safetensors(bytes + '\0', "x.st"), DataError);
}

TEST(DataSafetensors, DamageNamesTheFile) {
  EXPECT_EQ(problem(one("F33", "[1]", "[0,4]", 4)),
            "x.st is damaged: unknown dtype 'F33'");
}

TEST(DataSafetensors, BadHeaderIsDamage) {
  EXPECT_NO_THROW(from_safetensors(file_of("{}", ""), "x.st"));
  for (const std::string header :
       {"", "{", "}", "{]", "nonsense", "[]", "null", "5", R"("a")",
        R"({"a":5})", R"({"a":{}})", R"({"a":{"dtype":"F32"}})",
        R"({"__metadata__":[1]})", R"({"__metadata__":{"k":1}})",
        "{\"\xff\":{}}"}) {
    EXPECT_THROW(from_safetensors(file_of(header, ""), "x.st"), DataError)
        << header;
  }
}

TEST(DataSafetensors, WrongHeaderLengthIsDamage) {
  for (const int64_t extra : {int64_t{1}, int64_t{1} << 20, int64_t{1} << 40,
                              int64_t{-3}, INT64_MIN}) {
    EXPECT_THROW(from_safetensors(file_of("{}", "", extra), "x.st"), DataError)
        << extra;
  }
}

TEST(DataSafetensors, WrongTensorIsDamage) {
  EXPECT_NO_THROW(from_safetensors(one("F32", "[2]", "[0,8]", 8), "x.st"));
  std::string many = "[";  // dimensions
  for (int n = 0; n < 100; ++n) many += "1,";
  for (const auto& bytes : {
           one("F32", "[2]", "[0,8]", 7),      // beyond the end
           one("F32", "[2]", "[4,12]", 8),     // beyond the end
           one("F32", "[2]", "[8,0]", 8),      // backwards
           one("F32", "[2]", "[-8,0]", 8),     // before the start
           one("F32", "[2]", "[0,4]", 4),      // too small
           one("F32", "[1]", "[0,8]", 8),      // too large
           one("F64", "[2]", "[0,8]", 8),      // of another type
           one("F32", "[2]", "[4,12]", 12),    // a hole before it
           one("F32", "[2]", "[0,8]", 9),      // a byte after it
           one("F32", "[-2]", "[0,8]", 8),     // a negative size
           one("F32", "[-1,-2]", "[0,8]", 8),  // two negative sizes
           one("F32", "[4611686018427387906]", "[0,8]", 8),  // wraps to 8
           one("F32", "2", "[0,8]", 8),
           one("F32", "[2]", "[0]", 8),
           one("F32", "[2]", "8", 8),
           one("F32", R"(["2"])", "[0,8]", 8),
           one("F32", "[2.0]", "[0,8]", 8),
           one("F32", "[2.5]", "[0,8]", 8),
           one("F32", "[1e300]", "[0,8]", 8),
           one("F32", "[null]", "[0,8]", 8),
           one("U8", "[true]", "[0,1]", 1),
           one("F32", "[18446744073709551618]", "[0,8]", 8),
           one("F32", R"({"a":2})", "[0,8]", 8),
           // Beside a zero its strides cannot be counted.
           one("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]",
               0),
           one("F32", many + "1]", "[0,4]", 4),
           one("F32", "[2]", "[0,8,8]", 8),
           one("F32", "[2]", "[0.0,8.0]", 8),
           one("F32", "[2]", "[false,8]", 8),
           one("F32", "[2]", "[0,1e300]", 8),
           one("f32", "[2]", "[0,8]", 8),
           one("", "[2]", "[0,8]", 8),
       }) {
    EXPECT_THROW(from_safetensors(bytes, "x.st"), DataError) << bytes.substr(8);
  }
}

TEST(DataSafetensors, ATruthValueIsZeroOrOne) {
  auto bytes = one("BOOL", "[2]", "[0,2]", 2);
  bytes.back() = 1;
  EXPECT_NO_THROW(from_safetensors(bytes, "x.st"));
  bytes.back() = 2;
  EXPECT_EQ(problem(bytes),
            "x.st is damaged: tensor a has a truth value besides 0 and 1");
}

TEST(DataSafetensors, AHeaderThatNestsDeeplyIsDamage) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(problem(file_of("{\"a\":" + deep, "")),
            "x.st is damaged: its header is not a JSON object");
}

TEST(DataSafetensors, OverlapIsDamage) {
  const auto two = [](const std::string& a, const std::string& b) {
    return file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" +
                       b + "}}",
                   std::string(16, '\0'));
  };
  EXPECT_NO_THROW(from_safetensors(two("[0,8]", "[8,16]"), "x.st"));
  EXPECT_NO_THROW(from_safetensors(two("[8,16]", "[0,8]"), "x.st"));
  EXPECT_THROW(from_safetensors(two("[0,8]", "[0,8]"), "x.st"), DataError);
  EXPECT_THROW(from_safetensors(two("[0,8]", "[4,12]"), "x.st"), DataError);
}

}  // namespace
}  // namespace propagator::data
