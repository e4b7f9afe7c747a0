#include <cmath>
#include <limits>

#include "propagator/serve/datatype.h"
#include "serve/asking.h"

namespace propagator::serve {
namespace {

using nlohmann::json;

const Ports kIn{{"x", {-1, 2}, "pairs"}, {"n", {-1}, "numbers"}};
const Ports kOut{{"y", {-1}, "sums"}, {"z", {-1}, "products"}};

InferRequest read(const std::string& body,
                  std::optional<std::string> length = std::nullopt) {
  return read_infer_request(body, std::move(length), kIn, kOut);
}

json good() {
  return json::parse(R"({"id": "7", "inputs": [
    {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3, 4.5]]},
    {"name": "n", "shape": [2], "datatype": "INT64", "data": [5, -6]}]})");
}

// What is wrong with the request after a change.
std::string wrong(const std::function<void(json&)>& change) {
  auto request = good();
  change(request);
  return testing::thrown<UsageError>([&] { read(request.dump()); });
}

template <class Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(Number)};
}

TEST(ServeInfer, ReadsNumbersInJson) {
  const auto request = read(good().dump());
  EXPECT_EQ(request.id, "7");
  EXPECT_FALSE(request.guard);
  EXPECT_TRUE(torch::equal(request.inputs.at("x"),
                           torch::tensor({1.F, 2.F, 3.F, 4.5F}).view({2, 2})));
  EXPECT_TRUE(torch::equal(request.inputs.at("n"),
                           torch::tensor({5, -6}, torch::kInt64)));
  ASSERT_EQ(request.outputs.size(), 2U);
  EXPECT_EQ(request.outputs[1].name, "z");
  EXPECT_FALSE(request.outputs[1].binary);
}

TEST(ServeInfer, ReadsBinaryTensorsInTheirOrder) {
  const json head = json::parse(R"({"inputs": [
    {"name": "n", "shape": [2], "datatype": "FP64",
     "parameters": {"binary_data_size": 16}},
    {"name": "x", "shape": [1, 2], "datatype": "FP32",
     "parameters": {"binary_data_size": 8}}],
    "outputs": [{"name": "z", "parameters": {"binary_data": false}},
                {"name": "y"}],
    "parameters": {"binary_data_output": true, "guard": true}})");
  const auto text = head.dump();
  const auto request = read(text + bytes_of_numbers<double>({0.25, -8}) +
                                bytes_of_numbers<float>({1.5F, 2.5F}),
                            std::to_string(text.size()));
  EXPECT_TRUE(torch::equal(request.inputs.at("n"),
                           torch::tensor({0.25, -8.}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(request.inputs.at("x"),
                           torch::tensor({1.5F, 2.5F}).view({1, 2})));
  EXPECT_TRUE(request.guard);
  ASSERT_EQ(request.outputs.size(), 2U);
  EXPECT_EQ(request.outputs[0].name, "z");
  EXPECT_FALSE(request.outputs[0].binary);
  EXPECT_TRUE(request.outputs[1].binary);
}

TEST(ServeInfer, ReadsEveryDatatype) {
  const auto same = [](const std::string& bytes, const char* name,
                       const std::vector<double>& numbers) {
    const auto read = tensor_from_bytes(bytes, datatype_named(name),
                                        {static_cast<int64_t>(numbers.size())});
    EXPECT_TRUE(torch::equal(read.to(torch::kFloat64),
                             torch::tensor(numbers, torch::kFloat64)))
        << name;
  };
  same(bytes_of_numbers<uint8_t>({0, 1}), "BOOL", {0, 1});
  same(bytes_of_numbers<int8_t>({-128, 127}), "INT8", {-128, 127});
  same(bytes_of_numbers<uint8_t>({0, 255}), "UINT8", {0, 255});
  same(bytes_of_numbers<int16_t>({-5, 300}), "INT16", {-5, 300});
  same(bytes_of_numbers<uint16_t>({65535}), "UINT16", {65535});
  same(bytes_of_numbers<int32_t>({-70000}), "INT32", {-70000});
  same(bytes_of_numbers<uint32_t>({4294967295U}), "UINT32", {4294967295.});
  same(bytes_of_numbers<int64_t>({-1, 5}), "INT64", {-1, 5});
  same(bytes_of_numbers<uint64_t>({9}), "UINT64", {9});
  same(bytes_of_numbers<uint16_t>({0x3C00, 0xC000}), "FP16", {1, -2});
  same(bytes_of_numbers<float>({0.5F}), "FP32", {0.5});
  same(bytes_of_numbers<double>({1e-300}), "FP64", {1e-300});
  EXPECT_THROW(same(bytes_of_numbers<uint64_t>({~0ULL}), "UINT64", {0}),
               UsageError);
  EXPECT_THROW(datatype_named("BYTES"), UsageError);
}

TEST(ServeInfer, SaysWhatIsWrongWithARequest) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(testing::thrown<UsageError>([] { read("{"); }), "JSON");
  has(testing::thrown<UsageError>([] { read("[1]"); }), "object");
  has(wrong([](json& r) { r.erase("inputs"); }), "'inputs'");
  has(wrong([](json& r) { r["inputs"].erase(1); }), "'n', got none");
  has(wrong([](json& r) { r["inputs"][1]["name"] = "x"; }), "twice");
  has(wrong([](json& r) { r["inputs"][1]["name"] = "m"; }), "'m'");
  has(wrong([](json& r) { r["inputs"][0]["shape"] = {2, 3}; }), "6 numbers");
  has(wrong([](json& r) { r["inputs"][0]["shape"] = {-2, -2}; }), "shape");
  has(wrong([](json& r) {
        r["inputs"][0]["shape"] = {1LL << 40, 1LL << 40, 0.5};
      }),
      "shape");
  has(wrong([](json& r) { r["inputs"][0]["shape"] = json(17, 1); }), "axes");
  has(wrong([](json& r) { r["inputs"][0]["datatype"] = "FP8"; }), "FP8");
  has(wrong([](json& r) { r["inputs"][0].erase("data"); }), "either");
  has(wrong([](json& r) {
        r["inputs"][0]["data"] = {1, 2, "3", 4};
      }),
      "string");
  has(wrong([](json& r) { r["inputs"][1]["data"] = {1.5, 2}; }), "whole");
  has(wrong([](json& r) {
        r["inputs"][0]["parameters"]["binary_data_size"] = 16;
      }),
      "either");
  has(wrong([](json& r) { r["outputs"] = {{{"name", "w"}}}; }), "'w'");
  has(wrong([](json& r) { r["id"] = 7; }), "'id'");
  has(wrong([](json& r) { r["parameters"] = {{"guard", 1}}; }), "'guard'");
}

TEST(ServeInfer, SaysWhatIsWrongWithBinaryTensors) {
  const std::string head = R"({"inputs": [
    {"name": "x", "shape": [1, 2], "datatype": "FP32",
     "parameters": {"binary_data_size": 8}},
    {"name": "n", "shape": [1], "datatype": "FP32", "data": [1]}]})";
  const auto length = std::to_string(head.size());
  EXPECT_NO_THROW(read(head + std::string(8, '\0'), length));
  for (const size_t bytes : {0, 7, 9}) {
    EXPECT_THROW(read(head + std::string(bytes, '\0'), length), UsageError);
  }
  for (const char* bad :
       {"", "-1", "12x", "99999", "1e3", "184467440737095516199"}) {
    EXPECT_THROW(read(head + std::string(8, '\0'), bad), UsageError) << bad;
  }
}

TEST(ServeInfer, WritesNumbersThatReadBackAsTheSameBits) {
  const auto y = torch::tensor({0.1F, 1.F / 3, 1e-40F, -0.F});
  const auto z = torch::tensor(
      {0.1, 1e300, std::nan(""), -std::numeric_limits<double>::infinity()},
      torch::kFloat64);
  const Answer answer{{{"y", y}, {"z", z}}, std::nullopt};
  const auto response = write_infer_response(
      {.id = "a", .inputs = {}, .outputs = {{"y", false}, {"z", false}}},
      answer, "m", "v");
  const auto body = json_of(response);
  EXPECT_EQ(body.at("id"), "a");
  EXPECT_EQ(body.at("outputs")[0].at("datatype"), "FP32");
  EXPECT_EQ(body.at("outputs")[1].at("datatype"), "FP64");
  const auto data = body.at("outputs")[0].at("data").get<std::vector<float>>();
  for (size_t n = 0; n < data.size(); ++n) {
    EXPECT_EQ(data[n], y[static_cast<int64_t>(n)].item<float>());
  }
  EXPECT_EQ(body.at("outputs")[1].at("data")[1], 1e300);
  EXPECT_TRUE(body.at("outputs")[1].at("data")[2].is_null());
  EXPECT_TRUE(body.at("outputs")[1].at("data")[3].is_null());
}

TEST(ServeInfer, WritesBinaryTensorsBehindTheJson) {
  const auto y = torch::tensor({1.5F, std::nanf("")});
  const auto z = torch::tensor({2.5}, torch::kFloat64);
  const Answer answer{{{"y", y}, {"z", z}},
                      tasks::Guard{.outside = "far", .residual = 0.5}};
  const auto response = write_infer_response(
      {.inputs = {}, .outputs = {{"z", true}, {"y", true}}}, answer, "m", "v");
  ASSERT_EQ(response.fields.size(), 1U);
  const auto length = std::stoul(response.fields[0].second);
  const auto head = json::parse(response.body.substr(0, length));
  EXPECT_EQ(head.at("outputs")[1].at("parameters").at("binary_data_size"), 8);
  EXPECT_EQ(head.at("parameters").at("guard_inside"), false);
  EXPECT_EQ(head.at("parameters").at("guard_outside"), "far");
  EXPECT_EQ(head.at("parameters").at("guard_residual"), 0.5);
  EXPECT_EQ(response.body.substr(length),
            bytes_of_numbers<double>({2.5}) +
                bytes_of_numbers<float>({1.5F, std::nanf("")}));
}

}  // namespace
}  // namespace propagator::serve
