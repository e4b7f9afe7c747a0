// Roles, and keys and values that have been renamed.

#include <fstream>

#include "propagator/core/config.h"
#include "testing.h"

namespace propagator {
namespace {

enum class Colour { kRed, kBlue };

struct PaintOptions {
  int64_t coats = 1;
  Colour colour = Colour::kRed;
  std::string shop;

  void describe(config::Schema& s) {
    s.field("coats", coats, {.help = "how many coats", .formerly = "layers"});
    s.field("colour", colour, {.help = "colour of the paint"});
    s.field("shop", shop,
            {.help = "who sells it", .role = config::Role::kPlace});
  }
};

struct HouseOptions {
  int64_t rooms = 3;
  PaintOptions paint;

  void describe(config::Schema& s) {
    s.field("rooms", rooms, {.help = "how many rooms", .memory = true});
    s.section("paint", paint, config::Role::kTraining);
  }
};

}  // namespace

namespace config {

template <>
struct Names<Colour> {
  static constexpr std::pair<Colour, const char*> all[] = {
      {Colour::kRed, "red"}, {Colour::kBlue, "blue"}};
  static constexpr std::pair<const char*, const char*> former[] = {
      {"azure", "blue"}};
};

}  // namespace config

namespace {

using config::Document;
using config::Role;
using testing::thrown;

struct House : HouseOptions {
  config::Schema schema;
  House() { describe(schema); }
  House(const House&) = delete;
};

TEST(CoreConfigDocument, AFileIsBesideTheConfigurationIfItIsThere) {
  std::string plan, garden;
  config::Schema schema;
  schema.field("plan", plan, {.help = "a drawing", .file = true});
  schema.field("garden", garden, {.help = "another", .file = true});
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "house.yaml")
      << "plan: plan.svg\ngarden: garden.svg\n";
  std::ofstream(folder / "plan.svg") << "<svg/>";
  auto document = Document::from_file(folder / "house.yaml");
  for (int time = 0; time < 2; ++time) {  // as a run reads it again
    document.apply_to(schema);
    EXPECT_EQ(plan, (folder / "plan.svg").string());
    EXPECT_EQ(garden, "garden.svg");
  }
  document.override_with("plan=plan.svg");  // typed in the current folder
  document.apply_to(schema);
  EXPECT_EQ(plan, "plan.svg");
}

TEST(CoreConfigDocument, FilesOfAListAreFoundOneByOne) {
  std::vector<std::string> plans;
  config::Schema schema;
  schema.field("plans", plans, {.help = "drawings", .file = true});
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "house.yaml") << "plans: [plan.svg, shed.svg]\n";
  std::ofstream(folder / "plan.svg") << "<svg/>";
  auto document = Document::from_file(folder / "house.yaml");
  document.apply_to(schema);
  EXPECT_EQ(plans, (std::vector<std::string>{(folder / "plan.svg").string(),
                                             "shed.svg"}));
}

TEST(CoreConfigDocument, RoleIsTheFieldsOrItsSections) {
  House house;
  EXPECT_EQ(house.schema.find("rooms")->role, Role::kData);
  EXPECT_EQ(house.schema.find("paint.coats")->role, Role::kTraining);
  EXPECT_EQ(house.schema.find("paint.shop")->role, Role::kPlace);
  EXPECT_TRUE(house.schema.find("rooms")->meta.memory);
  const auto help = config::to_help(house.schema);
  EXPECT_NE(help.find("default 1, role training"), std::string::npos) << help;
}

TEST(CoreConfigDocument, FormerNamesAreReadWithAWarning) {
  House house;
  auto document = Document::from_text(
      "layers: 2\npaint: {colour: azure, shop: here}\n", "a.yaml");
  EXPECT_EQ(document.apply_to(house.schema),
            (std::vector<std::string>{
                "a.yaml:1:9: layers is now called paint.coats",
                "a.yaml:2:17: paint.colour=azure is now called blue"}));
  EXPECT_EQ(house.paint.coats, 2);
  EXPECT_EQ(house.paint.colour, Colour::kBlue);
  EXPECT_EQ(document.get("paint.coats"), "2");
  EXPECT_FALSE(document.get("layers"));
  EXPECT_TRUE(document.apply_to(house.schema).empty());
}

TEST(CoreConfigDocument, WhatComesLaterWinsUnderEitherName) {
  for (const auto& [file, assignment] :
       {std::pair{"layers: 2\n", "paint.coats=3"},
        std::pair{"paint: {coats: 2}\n", "layers=3"},
        std::pair{"layers: 2\n", "layers=3"}}) {
    House house;
    auto document = Document::from_text(file, "a.yaml");
    document.override_with(assignment);
    EXPECT_EQ(document.apply_to(house.schema).size(), 1u) << assignment;
    EXPECT_EQ(house.paint.coats, 3) << file << assignment;
  }
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "base.yaml") << "paint.coats: 2\n";
  std::ofstream(folder / "row.yaml") << "from: base.yaml\nlayers: 4\n";
  House house;
  auto row = Document::from_file(folder / "row.yaml");
  row.suggest("paint.coats", "5", "a test");
  row.apply_to(house.schema);
  EXPECT_EQ(house.paint.coats, 4);
}

TEST(CoreConfigDocument, ASectionOfAnotherNameInheritsNothing) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "base.yaml")
      << "model: {name: siren, width: 9}\nmodels.width: 7\n";
  std::ofstream(folder / "same.yaml")
      << "from: base.yaml\nmodel: {name: siren, layers: 2}\n";
  std::ofstream(folder / "other.yaml")
      << "from: base.yaml\nmodel: {name: pinn, layers: 2}\n";
  std::ofstream(folder / "third.yaml")
      << "from: other.yaml\nmodel: {layers: 3}\n";
  const auto same = Document::from_file(folder / "same.yaml");
  EXPECT_EQ(same.get("model.width"), "9");
  EXPECT_EQ(same.get("model.layers"), "2");
  for (const auto& [file, layers] :
       {std::pair{"other.yaml", "2"}, std::pair{"third.yaml", "3"}}) {
    const auto other = Document::from_file(folder / file);
    EXPECT_EQ(other.get("model.name"), "pinn");
    EXPECT_EQ(other.get("model.width"), std::nullopt);
    EXPECT_EQ(other.get("model.layers"), layers);
    EXPECT_EQ(other.get("models.width"), "7");
  }
}

TEST(CoreConfigDocument, BothNamesAtOnceAreAnError) {
  const auto problem = [](Document document) {
    House house;
    return thrown<ConfigError>([&] { document.apply_to(house.schema); });
  };
  EXPECT_EQ(
      problem(Document::from_text("layers: 2\npaint.coats: 2\n", "a.yaml")),
      "a.yaml:1:9: layers is now called paint.coats, and both are given");
  Document typed;
  typed.override_with("paint.coats=2");
  typed.override_with("layers=2");
  EXPECT_EQ(problem(typed),
            "-s layers=2: layers is now called paint.coats, and both are "
            "given");
}

TEST(CoreConfigDocument, ErrorsOfFormerKeysNameTheirPlace) {
  House house;
  auto document = Document::from_text("layers: two\n", "a.yaml");
  EXPECT_EQ(thrown<ConfigError>([&] { document.apply_to(house.schema); }),
            "a.yaml:1:9: paint.coats: expected a whole number, got 'two'");
}

TEST(CoreConfigDocument, ControlCharactersInTextAreAnError) {
  for (const std::string text : {R"("a\nb")", R"("a\tb")", R"("\e[2J")",
                                 "a\xff"
                                 "b"}) {
    House house;
    auto document = Document::from_text("paint:\n  shop: " + text, "a.yaml");
    const auto message =
        thrown<ConfigError>([&] { document.apply_to(house.schema); });
    EXPECT_TRUE(message.starts_with(
        "a.yaml:2:9: paint.shop: expected text in UTF-8 without control "
        "characters"))
        << message;
  }
}

// yaml-cpp finds documents without end in the first of these.
TEST(CoreConfigDocument, HasOneDocument) {
  for (const char* text : {",", "rooms: 1\n---\nrooms: 2\n"}) {
    EXPECT_EQ(testing::thrown<ConfigError>(
                  [&] { config::Document::from_text(text, "house.yaml"); }),
              "house.yaml: expected one document, found a '---'");
  }
}

TEST(CoreConfigDocument, AliasesOfAliasesDoNotFillTheMemory) {
  std::string text = "a0: &a0 {}\n";
  for (int level = 1; level < 15; ++level) {
    text += fmt::format("a{0}: &a{0} {{", level);
    for (int n = 0; n < 10; ++n)
      text += fmt::format("k{}: *a{}, ", n, level - 1);
    text += "}\n";
  }
  const auto message = testing::thrown<ConfigError>(
      [&] { config::Document::from_text(text, "house.yaml"); });
  EXPECT_NE(message.find("there are too many keys"), std::string::npos)
      << message;
}

TEST(CoreConfigDocument, HashHasTheFirstNames) {
  House house;
  house.paint.colour = Colour::kBlue;
  EXPECT_EQ(house.schema.find("rooms")->hash_text(), "rooms=3");
  EXPECT_EQ(house.schema.find("paint.coats")->hash_text(), "layers=1");
  EXPECT_EQ(house.schema.find("paint.colour")->hash_text(),
            "paint.colour=azure");
}

}  // namespace
}  // namespace propagator
