#pragma once

#include <map>
#include <memory>

#include "propagator/core/device.h"
#include "propagator/data/split.h"
#include "propagator/data/storage.h"
#include "propagator/data/tensor_file.h"
#include "propagator/physics/heat_plate.h"

namespace propagator::data {

struct PlateDataOptions {
  int64_t cases = 12000;
  std::string file;
  Storage storage = Storage::kAuto;

  void describe(config::Schema& schema);
};

// A batch of plate histories on the device that uses it.
struct PlateBatch {
  torch::Tensor frames;  // (B, T, R, C)
  torch::Tensor alpha;   // (B)
  torch::Tensor dt;      // (B)
};

// Histories of the plate, or of another field from a file, split 70/20/10. They
// are solved on the device that uses them, or read from a file; kept in memory,
// or, when they do not fit, solved or read again batch by batch (solving four
// cases costs a millisecond).
class PlateDataset {
 public:
  PlateDataset(const physics::HeatPlateOptions& plate,
               const PlateDataOptions& options, int64_t seed,
               const Runtime& runtime);

  int64_t size(Split split) const;
  bool in_memory() const { return fields_.defined(); }
  // Bytes of all histories together.
  int64_t bytes() const;
  // `positions` (B) count within the split; int64, on the CPU or, with data in
  // memory, where the data are.
  PlateBatch batch(Split split, const torch::Tensor& positions) const;
  // Positions [begin, begin + count) of the split.
  PlateBatch range(Split split, int64_t begin, int64_t count) const;
  // Whether they obey the heat equation: those that are solved do, those of a
  // file if its note says so (`"equation": "heat"`). Then a file must have α
  // and dt; else α is 0 where it has none.
  bool is_heat() const { return heat_; }
  bool has_alpha() const { return has_alpha_; }
  // Of a file: sums of its numbers that tell it from another. Undefined where
  // plates are solved.
  const torch::Tensor& fingerprint() const { return fingerprint_; }

 private:
  torch::Tensor histories(const torch::Tensor& cases) const;
  torch::Tensor each(const std::string& name, const std::string& path,
                     int64_t cases, double otherwise) const;
  void open_file(const std::string& path);
  void keep_in_memory();

  physics::HeatPlateOptions plate_;
  Runtime runtime_;
  SplitIndices split_;
  std::map<Split, torch::Tensor> cases_of_;  // the same, where the data are
  physics::PlateCases cases_;  // of every case; `first` empty for a file
  std::shared_ptr<TensorReader> reader_;
  bool heat_ = true, has_alpha_ = true;
  torch::Tensor fingerprint_;  // (3), float64
  torch::Tensor fields_;       // (N, T, R, C) when in memory
};

// Writes `cases` histories to `path` (.h5 or .npz) batch by batch: arrays
// fields (N, T, R, C), alpha (N), dt (N), and the plate's options as the note.
void write_plate_file(const std::filesystem::path& path,
                      const physics::HeatPlateOptions& plate, int64_t cases,
                      int64_t seed, const Runtime& runtime,
                      const std::string& note);

// DataError that names the first case and frame that is not finite.
void check_finite(const torch::Tensor& fields, int64_t first_case,
                  const std::string& source);

}  // namespace propagator::data
