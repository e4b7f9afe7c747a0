#include "propagator/core/config.h"

#include <cstdlib>
#include <fstream>
#include <limits>

#include "testing.h"

namespace propagator {
namespace {

enum class Shape { kRound, kSquare };

struct ModelOptions {
  int64_t heads = 4;
  double rate = 0.5;
  Shape shape = Shape::kRound;

  void describe(config::Schema& s) {
    s.field("heads", heads, {.help = "of attention", .min = 1, .max = 64});
    s.field("rate", rate, {.help = "of decay", .unit = "1/s", .min = 0});
    s.field("shape", shape, {.help = "of the mask"});
  }
};

struct BatchOptions {
  int64_t batch = 8;

  void describe(config::Schema& s) {
    s.field("batch", batch, {.help = "cases at once", .max = 99});
  }
};

struct Options {
  std::string name = "run";
  std::vector<std::string> rules;
  bool fast = false;
  ModelOptions model;
  BatchOptions train, eval;

  void describe(config::Schema& s) {
    s.field("name", name, {.help = "of the run"});
    s.field("rules", rules, {.help = "of the game"});
    s.field("fast", fast, {.help = "or slow"});
    s.section("model", model);
    s.section("train", train);
    s.section("eval", eval);
  }
};

}  // namespace

namespace config {

template <>
struct Names<Shape> {
  static constexpr std::pair<Shape, const char*> all[] = {
      {Shape::kRound, "round"}, {Shape::kSquare, "square"}};
};

}  // namespace config

namespace {

using config::Document;
using testing::thrown;

Options read(const std::string& yaml,
             const std::vector<std::string>& assignments = {}) {
  Options options;
  config::Schema schema;
  options.describe(schema);
  auto document = Document::from_text(yaml, "a.yaml");
  for (const auto& text : assignments) document.override_with(text);
  document.apply_to(schema);
  return options;
}

std::string problem(const std::string& yaml,
                    const std::vector<std::string>& assignments = {}) {
  return thrown<ConfigError>([&] { read(yaml, assignments); });
}

std::string hint_of(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const ConfigError& error) {
    return error.hint();
  }
  return "nothing was thrown";
}

std::string yaml_of(Options options, bool with_help) {
  config::Schema schema;
  options.describe(schema);
  return config::to_yaml(schema, with_help);
}

TEST(CoreConfig, ReadsEachType) {
  const auto options = read(
      "name: a b\nfast: yes\n"
      "model:\n  heads: 64\n  rate: 2.5e-3\n  shape: square\n"
      "train.batch: -3\n");
  EXPECT_EQ(options.name, "a b");
  EXPECT_TRUE(options.fast);
  EXPECT_EQ(options.model.heads, 64);
  EXPECT_EQ(options.model.rate, 0.0025);
  EXPECT_EQ(options.model.shape, Shape::kSquare);
  EXPECT_EQ(options.train.batch, -3);
}

TEST(CoreConfig, KeepsDefaultsOfWhatIsNotNamed) {
  for (const std::string yaml : {"", "# nothing\n", "eval:\n  batch: 8\n"}) {
    const auto options = read(yaml);
    EXPECT_EQ(options.name, "run");
    EXPECT_FALSE(options.fast);
    EXPECT_EQ(options.model.heads, 4);
    EXPECT_EQ(options.model.rate, 0.5);
    EXPECT_EQ(options.model.shape, Shape::kRound);
  }
}

TEST(CoreConfig, SaysPlaceKeyAndWhatWasExpected) {
  EXPECT_EQ(problem("name: x\nmodel:\n  heads: many\n"),
            "a.yaml:3:10: model.heads: expected a whole number from 1 to 64, "
            "got 'many'");
  EXPECT_EQ(problem("model: {rate: -0.1}\n"),
            "a.yaml:1:15: model.rate: expected a number of at least 0, got "
            "'-0.1'");
  EXPECT_EQ(problem("train: {batch: 100}\n"),
            "a.yaml:1:16: train.batch: expected a whole number of at most 99, "
            "got '100'");
  EXPECT_EQ(problem("\n\nfast:   maybe\n"),
            "a.yaml:3:9: fast: expected yes or no, got 'maybe'");
  EXPECT_EQ(problem("model:\n  shape: cube\n"),
            "a.yaml:2:10: model.shape: expected round | square, got 'cube'");
}

TEST(CoreConfig, RefusesTextThatIsNearlyANumber) {
  for (const std::string text :
       {"0", "65", "1.5", "1e1", "3x", "0x10", "''", "9223372036854775808"}) {
    EXPECT_THROW(read("model:\n  heads: " + text), ConfigError) << text;
  }
  for (const std::string text :
       {"nan", "inf", "1,5", "1e999", "-1", ".5.", "''"}) {
    EXPECT_THROW(read("model:\n  rate: " + text), ConfigError) << text;
  }
}

TEST(CoreConfig, SuggestsTheNearestKey) {
  const std::string yaml = "model:\n  haeds: 3\n";
  EXPECT_EQ(problem(yaml), "a.yaml:2:10: unknown key model.haeds");
  EXPECT_EQ(hint_of(yaml), "did you mean model.heads?");
  EXPECT_EQ(hint_of("heads: 3\n"), "did you mean model.heads?");
  EXPECT_EQ(hint_of("modle:\n  rate: 3\n"), "did you mean model.rate?");
  // Both sections have a `batch`; the misspelt one is nearer to the second.
  EXPECT_EQ(hint_of("evl:\n  batch: 3\n"), "did you mean eval.batch?");
  EXPECT_EQ(hint_of("zzzzzzzzzzzz: 3\n").find("did you mean"),
            std::string::npos);
}

TEST(CoreConfig, ASectionForAListIsToldSo) {
  EXPECT_EQ(problem("rules: {c: 2}\n"), "a.yaml:1:12: unknown key rules.c");
  EXPECT_EQ(
      hint_of("rules: {c: 2}\n"),
      "rules is a list (of the game): give items a line each, after '- '");
}

TEST(CoreConfig, CommandLineBeatsTheFile) {
  const auto options =
      read("model:\n  heads: 2\nname: file\n",
           {"model.heads=7", "name=a=b", "model.shape=square"});
  EXPECT_EQ(options.model.heads, 7);
  EXPECT_EQ(options.name, "a=b");
  EXPECT_EQ(options.model.shape, Shape::kSquare);
  EXPECT_EQ(problem("", {"model.heads=0"}),
            "-s model.heads=0: model.heads: expected a whole number from 1 to "
            "64, got '0'");
}

TEST(CoreConfig, CommandLineNeedsKeyAndValue) {
  for (const std::string text : {"model.heads", "=3", ""}) {
    const auto message = thrown<UsageError>([&] { read("", {text}); });
    EXPECT_EQ(message, "-s " + text + ": expected key=value");
  }
}

TEST(CoreConfig, RefusesAKeySetTwice) {
  EXPECT_EQ(problem("name: a\nname: b\n"), "a.yaml:2:1: name is set twice");
  EXPECT_EQ(problem("model:\n  heads: 3\nmodel.heads: 3\n"),
            "a.yaml:3:1: model.heads is set twice");
}

TEST(CoreConfig, RefusesAListOrASectionForAScalar) {
  EXPECT_EQ(problem("model:\n  heads: [1, 2]\n"),
            "a.yaml:2:10: model.heads: expected a single value, got a list");
  EXPECT_EQ(problem("model:\n  heads:\n    low: 1\n"),
            "a.yaml:3:10: unknown key model.heads.low");
  EXPECT_EQ(problem("model: 3\n"), "a.yaml:1:8: unknown key model");
  EXPECT_EQ(problem("- name\n"), "a.yaml: expected `key: value` lines");
}

TEST(CoreConfig, ListsAreReadAndWrittenBack) {
  // An item `place: rule` is a map to YAML; it is one line of text to us.
  Options options;
  config::Schema schema;
  options.describe(schema);
  const std::vector<std::string> expected{"at t=0: u = sin(x)", "x in [0, 1]",
                                          "a \"b\" # c"};
  config::Document::from_text(
      "rules:\n  - at t=0: u = sin(x)\n  - x in [0, 1]\n"
      "  - 'a \"b\" # c'\n",
      "a.yaml")
      .apply_to(schema);
  EXPECT_EQ(options.rules, expected);
  const auto yaml = config::to_yaml(schema, true);
  options.rules.clear();
  config::Document::from_text(yaml, "b.yaml").apply_to(schema);
  EXPECT_EQ(options.rules, expected) << yaml;
  config::Document::from_text("rules: one\n", "a.yaml").apply_to(schema);
  EXPECT_EQ(options.rules, std::vector<std::string>{"one"});
  EXPECT_EQ(problem("rules:\n  - [1, 2]\n"),
            "a.yaml:2:5: expected one line of text");
}

TEST(CoreConfig, BrokenYamlHasAPlace) {
  EXPECT_EQ(problem("fast: no\nname: a: b\n").substr(0, 12), "a.yaml:2:8: ");
  EXPECT_EQ(problem("name: x\nmodel: }\n").substr(0, 12), "a.yaml:2:8: ");
}

TEST(CoreConfig, SectionThatContainsItselfIsAnError) {
  const auto exit_on_error = [] {
    try {
      read("model: &x\n  model: *x\n");
    } catch (const ConfigError&) {
      std::_Exit(7);
    }
  };
  EXPECT_EXIT(exit_on_error(), ::testing::ExitedWithCode(7), "");
}

TEST(CoreConfig, FileErrorsCarryItsName) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(Document::from_file(folder / "none.yaml"), FileError);
  std::ofstream(folder / "b.yaml") << "name: x\nname: y\n";
  EXPECT_EQ(
      thrown<ConfigError>([&] { Document::from_file(folder / "b.yaml"); }),
      (folder / "b.yaml").string() + ":2:1: name is set twice");
}

TEST(CoreConfig, FileMayBeginFromAnother) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "rows");
  std::ofstream(folder / "base.yaml")
      << "name: base\nrules: [a, b]\nmodel: {heads: 2, rate: 3}\n";
  std::ofstream(folder / "rows/row.yaml")
      << "from: ../base.yaml\nrules: [c]\nmodel: {rate: 4}\n";
  Options options;
  config::Schema schema;
  options.describe(schema);
  Document::from_file(folder / "rows/row.yaml").apply_to(schema);
  EXPECT_EQ(options.name, "base");
  EXPECT_EQ(options.model.heads, 2);
  EXPECT_EQ(options.model.rate, 4);
  EXPECT_EQ(options.rules, std::vector<std::string>{"c"});
}

TEST(CoreConfig, FileThatBeginsFromNothingOrItselfIsAnError) {
  const testing::TemporaryFolder folder;
  const auto error_of = [&](const std::string& base) {
    std::ofstream(folder / "a.yaml") << "from: " << base << "\n";
    return thrown<ConfigError>([&] { Document::from_file(folder / "a.yaml"); });
  };
  const auto where = (folder / "a.yaml").string() + ":1:7: ";
  EXPECT_EQ(error_of("b.yaml"),
            where + "no file " + (folder / "b.yaml").string());
  EXPECT_EQ(error_of("a.yaml"), where + "a file begins from itself");
}

TEST(CoreConfig, LaterErrorsGetTheirPlace) {
  const auto document = Document::from_text("model:\n  rate: 3\n", "a.yaml");
  const auto place_of = [&](const std::string& key) {
    return thrown<ConfigError>(
        [&] { document.rethrow_with_place(ConfigError(key, "too fast")); });
  };
  EXPECT_EQ(place_of("model.rate"), "a.yaml:2:9: model.rate: too fast");
  EXPECT_EQ(place_of("model.heads"), "a.yaml: model.heads (default): too fast");
}

TEST(CoreConfig, YamlHasOneLineAField) {
  EXPECT_EQ(yaml_of({}, false),
            "name: run\nrules: []\nfast: no\nmodel:\n  heads: 4\n  rate: 0.5\n"
            "  shape: round\ntrain:\n  batch: 8\neval:\n  batch: 8\n");
  EXPECT_NE(yaml_of({}, true).find("# of decay [1/s]\n"), std::string::npos);
}

TEST(CoreConfig, TextReadsBackFromYaml) {
  for (const std::string text :
       {"",     "yes",   "no",    "1e3",    "a: b", "null", "~",
        "# x",  "a # b", " lead", "trail ", "- a",  "{a",   "[",
        "'",    "\"",    "a|b",   "a>b",    "\\n",  "*x",   "ü",
        "0x10", "?",     "key:",  "%x",     "@",    "-",    "---"}) {
    Options options;
    options.name = text;
    for (const bool with_help : {false, true}) {
      const auto yaml = yaml_of(options, with_help);
      EXPECT_EQ(read(yaml).name, text) << yaml;
    }
  }
}

TEST(CoreConfig, NumbersReadBackExactlyFromYaml) {
  for (const double rate : {0.0, 0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308,
                            5e-324, 123456789.123456789}) {
    Options options;
    options.model = {.heads = 63, .rate = rate, .shape = Shape::kSquare};
    options.fast = true;
    options.train.batch = std::numeric_limits<int64_t>::min();
    const auto again = read(yaml_of(options, true));
    EXPECT_EQ(again.model.rate, rate);
    EXPECT_EQ(again.model.heads, 63);
    EXPECT_EQ(again.model.shape, Shape::kSquare);
    EXPECT_TRUE(again.fast);
    EXPECT_EQ(again.train.batch, options.train.batch);
  }
}

TEST(CoreConfig, HelpShowsTypeBoundsAndDefault) {
  Options options;
  config::Schema schema;
  options.describe(schema);
  options.model.heads = 9;  // the default is what it was when described
  const auto help = config::to_help(schema);
  EXPECT_NE(help.find("integer from 1 to 64, default 4"), std::string::npos);
  EXPECT_NE(help.find("round | square, default round"), std::string::npos);
}

TEST(CoreConfig, NearestIsByEditDistance) {
  const std::vector<std::string> words = {"heads", "rate", "depth"};
  EXPECT_EQ(config::nearest("head", words), "heads");
  EXPECT_EQ(config::nearest("haeds", words), "heads");
  EXPECT_EQ(config::nearest("depht", words), "depth");
  EXPECT_EQ(config::nearest("rate", words), "rate");
  EXPECT_EQ(config::nearest("velocity", words), std::nullopt);
  EXPECT_EQ(config::nearest("heads", {}), std::nullopt);
  // What both begin with does not make them near.
  const std::vector<std::string> rows = {"forecast/tiny", "forecast/quick"};
  EXPECT_EQ(config::nearest("forecast/nope", rows), std::nullopt);
  EXPECT_EQ(config::nearest("forecast/quik", rows), "forecast/quick");
  EXPECT_EQ(config::nearest("forcast/quick", rows), "forecast/quick");
}

}  // namespace
}  // namespace propagator
