#include "propagator/data/npy_folder.h"

#include <fmt/format.h>

#include <fstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/plain_text.h"
#include "propagator/data/array_bytes.h"
#include "propagator/data/npy.h"

namespace propagator::data {
namespace {

class NpyFolder : public TensorReader {
 public:
  explicit NpyFolder(const fs::path& folder) : TensorReader(folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_regular_file() || entry.path().extension() != ".npy") {
        continue;
      }
      const auto name = entry.path().stem().string();
      headers_[name] = header_of(entry.path());
      shapes_[name] = headers_.at(name).shape;
    }
  }

  const Shapes& shapes() const override { return shapes_; }
  std::string note() const override { return ""; }

  torch::Tensor block(const std::string& name,
                      const std::vector<int64_t>& begin,
                      const std::vector<int64_t>& count) const override {
    expect_inside(name, begin, count);
    const auto& header = headers_.at(name);
    const auto file = path_ / (name + ".npy");
    auto part = header.fortran || begin.empty()
                    ? from_npy(read_file(file))
                    : some_rows(file, header, begin[0], count[0]);
    const bool rows = !header.fortran && !begin.empty();
    for (size_t d = rows ? 1 : 0; d < begin.size(); ++d) {
      part = part.narrow(static_cast<int64_t>(d), begin[d], count[d]);
    }
    return part;
  }

 private:
  // DataError says which file is wrong, and how.
  static NpyHeader header_of(const fs::path& file) {
    try {
      std::string begin(kMostOfNpyHeader, '\0');
      std::ifstream stream(file, std::ios::binary);
      stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
      begin.resize(static_cast<size_t>(stream.gcount()));
      return npy_header(begin, fs::file_size(file));
    } catch (const DataError& error) {
      throw DataError(
          fmt::format("{}: {}", plain_text(file.string()), error.what()));
    }
  }

  torch::Tensor some_rows(const fs::path& file, const NpyHeader& header,
                          int64_t begin, int64_t count) const {
    auto shape = header.shape;
    shape[0] = 1;
    const auto row = *array_bytes(shape, header.type);
    shape[0] = count;
    auto part = torch::empty(shape, header.type);
    std::ifstream stream(file, std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(
        header.data + static_cast<uint64_t>(begin) * row));
    stream.read(static_cast<char*>(part.data_ptr()),
                static_cast<std::streamsize>(part.nbytes()));
    if (!stream) throw FileError("cannot read " + plain_text(file.string()));
    return part;
  }

  Shapes shapes_;
  std::map<std::string, NpyHeader> headers_;
};

}  // namespace

std::unique_ptr<TensorReader> open_npy_folder(const fs::path& folder) {
  return std::make_unique<NpyFolder>(folder);
}

}  // namespace propagator::data
