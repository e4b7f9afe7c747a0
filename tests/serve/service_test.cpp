#include "propagator/serve/service.h"

#include "propagator/core/files.h"
#include "serve/asking.h"

namespace propagator::serve {
namespace {

Service& service() {
  static Service all({plate_model(), pde_model()}, {});
  return all;
}

Response got(const std::string& target) {
  return asked(service(), {head_of("GET", target), ""});
}

Response posted(const std::string& target, const std::string& body,
                Fields fields = {}) {
  return asked(service(), {head_of("POST", target, std::move(fields)), body});
}

TEST(ServeService, SaysWhatItHas) {
  EXPECT_TRUE(got("/").body.starts_with("<!doctype html>"));
  EXPECT_EQ(json_of(got("/v2/models")).at("models"),
            nlohmann::json({"plate", "pde"}));
  EXPECT_EQ(json_of(got("/v2")).at("name"), "propagator");
  EXPECT_EQ(json_of(got("/v2")).at("extensions")[0], "binary_tensor_data");
  EXPECT_EQ(got("/v2/health/live").status, 200);
  EXPECT_EQ(got("/v2/health/ready").status, 200);
  EXPECT_NE(got("/metrics").body.find("propagator_connections"),
            std::string::npos);
  const auto plate = json_of(got("/v2/models/plate"));
  EXPECT_EQ(plate.at("platform"), "propagator_forecast");
  EXPECT_EQ(plate.at("versions")[0], plate_model()->version());
  EXPECT_EQ(plate.at("inputs")[0].at("name"), "fields");
  EXPECT_EQ(plate.at("inputs")[0].at("datatype"), "FP32");
  EXPECT_EQ(plate.at("inputs")[0].at("shape"), nlohmann::json({-1, -1, 6, 7}));
  EXPECT_EQ(json_of(got("/v2/models/pde")).at("outputs")[0].at("datatype"),
            "FP64");
  const auto version = "/v2/models/plate/versions/" + plate_model()->version();
  EXPECT_EQ(got(version).status, 200);
  EXPECT_EQ(got(version + "/ready").status, 200);
  EXPECT_EQ(got("/v2/models/plate/ready?verbose").status, 200);
}

TEST(ServeService, NamesWhatIsNotThere) {
  for (const char* target :
       {"/v1", "/v2/none", "/v2/models/none", "/v2/models/plate/versions/1",
        "/v2/models/plate/versions", "/v2/models/plate/stats",
        "/v2/models/plate/infer/more", "/v2/health/other", "/metrics/all", "*",
        "http://evil.example/v2/x"}) {
    EXPECT_EQ(got(target).status, 404) << target;
  }
  EXPECT_NE(error_of(got("/v2/models/none")).find("there are plate, pde"),
            std::string::npos);
  const auto wrong = got("/v2/models/plate/infer");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.fields[0],
            std::make_pair(std::string("Allow"), std::string("POST")));
  EXPECT_EQ(posted("/v2", "").status, 405);
}

TEST(ServeService, GivesTheAnswersOfTheRun) {
  const auto inputs = plates(2);
  const auto response =
      posted("/v2/models/plate/infer", as_request(inputs).dump());
  ASSERT_EQ(response.status, 200) << response.body;
  const auto body = json_of(response);
  EXPECT_EQ(body.at("model_name"), "plate");
  const auto& fields = body.at("outputs")[0];
  const auto data = fields.at("data").get<std::vector<float>>();
  const auto own = plate_model()->run().apply(inputs).at("fields");
  EXPECT_EQ(fields.at("shape"), nlohmann::json(own.sizes().vec()));
  EXPECT_TRUE(torch::equal(torch::tensor(data).view(own.sizes()), own));
}

TEST(ServeService, AnswersAtPointsAndGuardsThem) {
  const auto x = torch::tensor({0.25, 0.5, 2.0}, torch::kFloat64);
  const auto t = torch::tensor({0.5, 0.5, 0.5}, torch::kFloat64);
  auto request = as_request({{"x", x}, {"t", t}});
  request["parameters"]["guard"] = true;
  const auto response = posted("/v2/models/pde/infer", request.dump());
  ASSERT_EQ(response.status, 200) << response.body;
  const auto guard = json_of(response).at("parameters");
  EXPECT_EQ(guard.at("guard_inside"), false);
  EXPECT_EQ(guard.at("guard_outside"), "1 of 3 points outside of the domain");
  EXPECT_GT(guard.at("guard_residual"), 0);
}

TEST(ServeService, SaysWhatIsWrongWithInputs) {
  const auto wrong = [](const std::string& name, const torch::Tensor& values) {
    auto inputs = plates(2);
    inputs[name] = values;
    return posted("/v2/models/plate/infer", as_request(inputs).dump());
  };
  const auto misshapen = wrong("fields", torch::zeros({2, 3, 7, 6}));
  EXPECT_EQ(misshapen.status, 400);
  EXPECT_NE(error_of(misshapen).find("(2, 3, 7, 6)"), std::string::npos);
  EXPECT_EQ(wrong("alpha", torch::zeros({2})).status, 400);
  EXPECT_EQ(wrong("alpha", torch::ones({3})).status, 400);
  EXPECT_EQ(wrong("beta", torch::ones({2})).status, 400);
  EXPECT_EQ(wrong("fields", torch::zeros({0, 3, 6, 7})).status, 400);
  EXPECT_EQ(posted("/v2/models/plate/infer", "").status, 400);
}

TEST(ServeService, RefusesAnAnswerThatIsTooLarge) {
  Service small({plate_model()}, {.answer_bytes = 4096});
  const auto ask = [&](int64_t cases) {
    return asked(small, {head_of("POST", "/v2/models/plate/infer"),
                         as_request(plates(cases)).dump()});
  };
  EXPECT_EQ(ask(3).status, 200);
  EXPECT_EQ(ask(4).status, 413);
}

TEST(ServeService, AsksForItsKeyExceptForItsHealth) {
  Service locked({plate_model()}, {.access = {.key = "a-key-of-some-length"}});
  const auto status = [&](const std::string& target, Fields fields = {}) {
    return asked(locked, {head_of("GET", target, std::move(fields)), ""})
        .status;
  };
  EXPECT_EQ(status("/v2"), 401);
  EXPECT_EQ(status("/metrics"), 401);
  EXPECT_EQ(status("/v2/models/none"), 401);
  EXPECT_EQ(status("/v2/health/live"), 200);
  EXPECT_EQ(status("/v2", {{"authorization", "Bearer a-key-of-some-length"}}),
            200);
}

TEST(ServeService, HasScriptsOfOnePageAskIfItIsPermitted) {
  const Fields page{{"Origin", "https://lab.example"}};
  EXPECT_EQ(asked(service(), {head_of("GET", "/v2", page), ""}).status, 403);
  EXPECT_EQ(asked(service(), {head_of("OPTIONS", "/v2"), ""}).status, 405);
  Service open({plate_model()}, {.access = {.key = "a-key-of-some-length",
                                            .origin = "https://lab.example"}});
  const auto preflight =
      asked(open, {head_of("OPTIONS", "/v2/models/plate/infer", page), ""});
  EXPECT_EQ(preflight.status, 204);
  const auto permits = [](const Response& response) {
    return std::ranges::count(
        response.fields,
        std::make_pair(std::string("Access-Control-Allow-Origin"),
                       std::string("https://lab.example")));
  };
  EXPECT_EQ(permits(preflight), 1);
  EXPECT_EQ(permits(asked(open, {head_of("GET", "/v2/health/live", page), ""})),
            1);
  EXPECT_EQ(permits(asked(open, {head_of("GET", "/v2/health/live"), ""})), 0);
}

TEST(ServeService, TakesRunsOfDifferentNamesThatCanBeServed) {
  EXPECT_THROW(Service({plate_model(), plate_model()}, {}), UsageError);
  const auto folder = (testing::runs_folder() / "plate").string();
  EXPECT_EQ(ServedModel::open(folder + "/", {})->name(), "plate");
  EXPECT_EQ(ServedModel::open("fine-2.x=" + folder, {})->name(), "fine-2.x");
  for (const char* name : {"", "a b", "a/b", "..", "käse", "a?b"}) {
    EXPECT_THROW(ServedModel::open(name + ("=" + folder), {}), UsageError)
        << name;
  }
  EXPECT_THROW(ServedModel::open("/no/such/run", {}), FileError);
}

// As a training leaves it that has begun, and whose weights are not yet there.
TEST(ServeService, SaysThatARunHasNoWeightsYet) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "begun/checkpoints");
  fs::copy(testing::runs_folder() / "plate/config.yaml", folder / "begun");
  const auto error = testing::thrown<FileError>(
      [&] { ServedModel::open((folder / "begun").string(), {}); });
  EXPECT_NE(error.find("no checkpoint yet"), std::string::npos) << error;
}

}  // namespace
}  // namespace propagator::serve
