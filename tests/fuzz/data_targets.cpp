// Files of numbers, which other programs write too.

#include <zlib.h>

#include "data/fields/stored_fields.h"
#include "fuzz/target.h"
#include "mat_files.h"
#include "propagator/core/files.h"
#include "propagator/data/csv.h"
#include "propagator/data/fields/field_file.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/data/gridded.h"
#include "propagator/data/mat.h"
#include "propagator/data/npz.h"
#include "propagator/data/safetensors.h"
#include "propagator/data/tensor_file.h"
#include "propagator/data/wake_cycles_simulator.h"
#include "propagator/tasks/locate/event_table.h"
#include "propagator/train/tuning.h"

namespace propagator::fuzz {
namespace {

data::Tensors some_tensors() {
  return {{"a", torch::arange(6, torch::kFloat32).reshape({2, 3})},
          {"b", torch::linspace(-1, 1, 5, torch::kFloat64)},
          {"none", torch::zeros({0, 4}, torch::kFloat32)}};
}

void read_safetensors(const std::string& bytes) {
  const auto content = data::from_safetensors(bytes, "fuzz");
  const auto copy =
      data::from_safetensors(data::to_safetensors(content), "copy");
  expect(copy.metadata == content.metadata, "the same metadata");
  expect(copy.tensors.size() == content.tensors.size(), "as many tensors");
  for (const auto& [name, tensor] : content.tensors) {
    expect(copy.tensors.at(name).sizes() == tensor.sizes(), "the same shapes");
  }
}

std::vector<std::string> safetensors_seeds() {
  auto tensors = some_tensors();
  tensors["flags"] = torch::ones({3}, torch::kBool);
  tensors["number"] = torch::tensor(1.5, torch::kBFloat16);
  return {data::to_safetensors({tensors, {{"made_by", "propagator"}}}),
          data::to_safetensors({})};
}

// What a fine-tuning trained, on a model of one matrix.
void read_adapter(const std::string& bytes) {
  const auto adapter = data::from_safetensors(bytes, "fuzz");
  const auto weights =
      train::with_adapter({{"w", torch::ones({2, 3})}}, adapter);
  expect(weights.contains("w"), "the weight that was there");
}

std::vector<std::string> adapter_seeds() {
  return {data::to_safetensors({{{"w.lora_a", torch::ones({1, 3})},
                                 {"w.lora_b", torch::ones({2, 1})},
                                 {"bias", torch::zeros({2})}},
                                {{"method", "lora"},
                                 {"rank", "1"},
                                 {"alpha", "2.5"},
                                 {"width", "16"},
                                 {"tokens", "8"}}})};
}

void read_csv_text(const std::string& bytes) {
  const auto columns = data::from_csv(bytes, "fuzz", {"u"});
  for (const auto& column : columns) {
    expect(column.values.size(0) == columns[0].values.size(0),
           "columns of one length");
    expect(
        column.name == "u" || torch::isfinite(column.values).all().item<bool>(),
        "finite numbers, but where they may be missing");
  }
}

std::vector<std::string> csv_seeds() {
  return {"x,t,u\n0,1,2.5\n-1e-3,+4,5e10\n", "x,u\n1,\n2,nan\n",
          "\xef\xbb\xbf\"a, b\" , \"say \"\"c\"\"\"\r\n 1 , 2 \r\n3,4\r\n"};
}

// Events of a detector with charges and places, sensors by their places.
void read_event_file(const std::string& bytes) {
  physics::DetectorOptions options;
  options.charge = true;
  options.trigger = 1;
  auto layout = tasks::layout_of(physics::make_detector(options), true);
  layout.vertex = true;
  const auto events =
      tasks::read_events(scratch_file("events.csv", bytes), layout);
  expect(torch::equal(events.charges > 0, events.hits),
         "a charge exactly where there is a hit");
  expect(torch::isfinite(events.vertices).all().item<bool>(),
         "a place for every event");
  expect(events.hits.any(1).all().item<bool>(), "a hit in every event");
}

std::vector<std::string> event_seeds() {
  const std::string names =
      "event,sensor_x,sensor_y,sensor_z,time,charge,x,y,z\n";
  return {names +
              "1,5,5,5,40,2,0,1,2\n1,5,5,-5,41.5,1,0,1,2\n"
              "-7,-5,5,5,0,13,4.5,1e-3,2\n",
          names + "3,-5,-5,-5,4,0.5,1,1,1\n"};
}

void read_tensors(const fs::path& path) {
  const auto content = data::load_tensors(path);
  for (const auto& [name, tensor] : content.tensors) tensor.sum();
}

std::vector<std::string> tensor_seeds(const std::string& file) {
  const auto path = scratch_folder() / file;
  data::save_tensors(path, {some_tensors(), R"({"seed": 3})"});
  return {read_file(path)};
}

// Bytes as the only entry of a zip, stored: a fuzzer does not guess checksums.
std::string zipped(const std::string& bytes) {
  const std::string name = "a.npy";
  std::string zip;
  const auto number = [&](uint64_t value, int size) {
    for (int i = 0; i < size; ++i) zip += static_cast<char>(value >> (8 * i));
  };
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()),
                         static_cast<uInt>(bytes.size()));
  const auto entry = [&] {
    number(20, 2), number(0, 8), number(sum, 4), number(bytes.size(), 4);
    number(bytes.size(), 4), number(name.size(), 2), number(0, 2);
  };
  number(0x04034b50, 4), entry();
  zip += name + bytes;
  const size_t directory = zip.size();
  number(0x02014b50, 4), number(20, 2), entry();
  zip.append(14, '\0');
  zip += name;
  const size_t length = zip.size() - directory;
  number(0x06054b50, 4), number(0, 4), number(1, 2), number(1, 2);
  number(length, 4), number(directory, 4), number(0, 2);
  return zip;
}

void read_npy(const std::string& bytes) {
  read_tensors(scratch_file("npy.npz", zipped(bytes)));
}

// The arrays of an .npz of ours, which stores them as they are.
std::vector<std::string> npy_seeds() {
  const std::string zip = tensor_seeds("seed.npz").front();
  const std::string magic = "\x93NUMPY";
  std::vector<std::string> seeds;
  for (size_t at = zip.find(magic); at != std::string::npos;) {
    const size_t next = zip.find("PK", at);
    seeds.push_back(zip.substr(at, next - at));
    at = zip.find(magic, next);
  }
  return seeds;
}

// The wake of four points and two times, in the layout that is public.
data::Tensors wake_points() {
  return {
      {"X_star", torch::tensor({{1., -2.}, {8., -2.}, {1., 2.}, {8., 2.}},
                               torch::kFloat64)},
      {"t", torch::tensor({0., 0.1}, torch::kFloat64)},
      {"U_star", torch::linspace(0, 1, 16, torch::kFloat64).reshape({4, 2, 2})},
      {"p_star", torch::zeros({4, 2}, torch::kFloat64)}};
}

void read_mat(const std::string& bytes) {
  const auto path = scratch_file("fuzz.mat", bytes);
  if (!data::load_tensors(path).tensors.contains("X_star")) return;
  const auto read = data::read_gridded(path, {"x", "y", "t"}, {"u", "v", "p"});
  int64_t nodes = 1;
  for (const int64_t size : read.shape()) nodes *= size;
  expect(read.fields.size(0) == nodes, "a value at every node");
}

std::vector<std::string> mat_seeds() {
  const auto path = scratch_folder() / "seed.mat";
  std::vector<std::string> seeds;
  for (const auto kind :
       {testing::MatKind::k5, testing::MatKind::kCompressed5}) {
    testing::write_mat(path, wake_points(), kind);
    seeds.push_back(read_file(path));
    testing::write_mat_with_others(path, kind);
    seeds.push_back(read_file(path));
  }
  testing::write_mat(path, {{"a", torch::ones({2, 3})}}, testing::MatKind::k73);
  seeds.push_back(read_file(path));
  return seeds;
}

// The smallest table of periodic flows.
std::vector<std::string> cycles_seeds() {
  const auto path = scratch_folder() / "seed-cycles.h5";
  const auto axis = torch::arange(4, torch::kFloat64);
  data::save_tensors(path, {{{"reynolds", torch::tensor({60., 180.})},
                             {"strouhal", torch::tensor({0.13, 0.19})},
                             {"x", axis},
                             {"y", axis},
                             {"velocity", torch::ones({2, 3, 2, 4, 4})}},
                            "{}"});
  return {read_file(path)};
}

void read_cycles(const std::string& bytes) {
  const auto cycles =
      data::read_wake_cycles(scratch_file("fuzz-cycles.h5", bytes));
  const auto sensors = cycles.at_sensors({cycles.x[0].item<double>()},
                                         {cycles.y[-1].item<double>()});
  expect(sensors.size(0) == cycles.strouhal.size(0), "a flow at every Re");
}

// The smallest set of fields.
std::vector<std::string> field_seeds() {
  const auto path = scratch_folder() / "seed-fields.h5";
  const auto axis = torch::arange(2, torch::kFloat64);
  data::write_field_set(
      path, {.layout = {.times = axis,
                        .axes = {{"x", axis, data::Boundary::kPeriodic}},
                        .channels = {"u"},
                        .parameters = {"speed"},
                        .constants = {"k"}},
             .values = torch::ones({2, 2, 2, 1}),
             .parameters = torch::ones({2, 1}, torch::kFloat64),
             .constants = torch::ones({2, 2, 1})});
  return {read_file(path)};
}

void read_fields(const std::string& bytes) {
  const auto set = data::read_field_set(scratch_file("fuzz-fields.h5", bytes));
  expect(data::field_tensors(set).at("fields").sizes() == set.values.sizes(),
         "what was read can be written");
}

// The smallest fields in layouts of others.
std::vector<std::string> layout_seeds() {
  const auto path = scratch_folder() / "seed-layouts.h5";
  std::vector<std::string> seeds;
  {
    testing::StoredFields file(path, /*checksums=*/true);
    file.array("dimensions/time", torch::arange(2));
    file.array("dimensions/x", torch::arange(3));
    file.texts("dimensions", "spatial_dims", {"x"});
    file.array("t0_fields/u", torch::ones({2, 2, 3}));
    file.array("t0_fields/k", torch::ones({2, 3}));
    file.flags("t0_fields/k", "time_varying", {false}, true);
    file.texts("t0_fields", "field_names", {"u", "k"});
    file.array("scalars/a", torch::ones({2}));
    file.mask("boundary_conditions/b/mask", torch::ones({3}));
    file.text("boundary_conditions/b", "bc_type", "WALL");
    file.texts("boundary_conditions/b", "associated_dims", {"x"});
  }
  seeds.push_back(read_file(path));
  {
    testing::StoredFields file(path, /*checksums=*/true);
    for (const auto* group : {"0000", "0001"}) {
      file.array(group + std::string("/data"), torch::ones({2, 3, 4, 1}));
      file.array(group + std::string("/grid/x"), torch::arange(4));
      file.array(group + std::string("/grid/y"), torch::arange(3));
    }
  }
  seeds.push_back(read_file(path));
  data::save_tensors(path, {{{"tensor", torch::ones({2, 2, 3})},
                             {"x-coordinate", torch::arange(3.)},
                             {"t-coordinate", torch::arange(3.)}},
                            ""});
  seeds.push_back(read_file(path));
  data::save_tensors(path, {{{"u", torch::ones({2, 4, 3, 3})},
                             {"k", torch::ones({2, 3, 3, 2})}},
                            ""});
  seeds.push_back(read_file(path));
  return seeds;
}

void read_layouts(const std::string& bytes) {
  const data::FieldSource source(scratch_file("fuzz-layouts.h5", bytes), {});
  const auto all = source.values(0, source.cases());
  expect(torch::isfinite(all).all().item<bool>(), "finite numbers");
  expect(all.size(-1) == std::ssize(source.layout().channels),
         "a name for each channel");
  const auto constants = source.constants(0, source.cases());
  expect(constants.defined() == !source.layout().constants.empty(),
         "numbers of constant inputs where there are any");
}

}  // namespace

std::vector<Target> data_targets(const fs::path& source) {
  std::vector<Target> targets{
      {"safetensors", read_safetensors, safetensors_seeds},
      {"adapter", read_adapter, adapter_seeds},
      {"csv", read_csv_text, csv_seeds},
      {"events", read_event_file, event_seeds},
      {"wake_cycles", read_cycles, cycles_seeds},
      {"fields", read_fields, field_seeds},
      {"field_layouts", read_layouts, layout_seeds},
      {"hdf5",
       [](const std::string& bytes) {
         read_tensors(scratch_file("fuzz.h5", bytes));
       },
       [=] {
         auto seeds = tensor_seeds("seed.h5");
         // As other programs write it: headers of the earliest format, an array
         // in compressed chunks.
         seeds.push_back(read_file(source / "tests/fuzz/earliest.h5"));
         return seeds;
       }}};
  if (data::has_npz()) {
    targets.push_back({"npz",
                       [](const std::string& bytes) {
                         read_tensors(scratch_file("fuzz.npz", bytes));
                       },
                       [] { return tensor_seeds("seed.npz"); }});
    targets.push_back({"npy", read_npy, npy_seeds});
  }
  if (data::has_matio()) targets.push_back({"mat", read_mat, mat_seeds});
  return targets;
}

}  // namespace propagator::fuzz
