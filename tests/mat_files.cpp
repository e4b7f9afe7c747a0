#include "mat_files.h"

#include <hdf5.h>
#include <matio.h>

#include <memory>
#include <stdexcept>

#include "propagator/data/axes.h"

namespace propagator::testing {
namespace {

using File = std::unique_ptr<mat_t, decltype(&Mat_Close)>;

File create(const std::filesystem::path& path, MatKind kind) {
  // Before matio opens HDF5, as our own reader does: files that a full disk has
  // left open are not to be closed at the end.
  H5dont_atexit();
  const auto version = kind == MatKind::k73 ? MAT_FT_MAT73 : MAT_FT_MAT5;
  File file(Mat_CreateVer(path.c_str(), nullptr, version), &Mat_Close);
  if (file == nullptr) throw std::runtime_error("cannot write a .mat file");
  return file;
}

void add(const File& file, matvar_t* variable, MatKind kind) {
  const auto compression = kind == MatKind::kCompressed5 ? MAT_COMPRESSION_ZLIB
                                                         : MAT_COMPRESSION_NONE;
  const bool good = variable != nullptr &&
                    Mat_VarWrite(file.get(), variable, compression) == 0;
  Mat_VarFree(variable);
  if (!good) throw std::runtime_error("cannot write to a .mat file");
}

std::pair<matio_classes, matio_types> type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return {MAT_C_SINGLE, MAT_T_SINGLE};
    case torch::kInt32:
      return {MAT_C_INT32, MAT_T_INT32};
    case torch::kUInt8:
      return {MAT_C_UINT8, MAT_T_UINT8};
    default:
      return {MAT_C_DOUBLE, MAT_T_DOUBLE};
  }
}

}  // namespace

void write_mat(const std::filesystem::path& path, const data::Tensors& tensors,
               MatKind kind) {
  const auto file = create(path, kind);
  for (const auto& [name, tensor] : tensors) {
    auto array = tensor;
    while (array.dim() < 2) array = array.unsqueeze(-1);
    std::vector<size_t> sides(array.sizes().begin(), array.sizes().end());
    const auto columns = data::with_axes_reversed(array).contiguous();
    const auto [kind_of, type] = type_of(array);
    add(file,
        Mat_VarCreate(name.c_str(), kind_of, type,
                      static_cast<int>(sides.size()), sides.data(),
                      columns.data_ptr(), 0),
        kind);
  }
}

void write_mat_with_others(const std::filesystem::path& path, MatKind kind) {
  const auto file = create(path, kind);
  size_t one[] = {1, 1}, five[] = {1, 5};
  double number = 2.5, imaginary = -1;
  char text[] = "hello";
  add(file, Mat_VarCreate("a", MAT_C_DOUBLE, MAT_T_DOUBLE, 2, one, &number, 0),
      kind);
  add(file, Mat_VarCreate("text", MAT_C_CHAR, MAT_T_UTF8, 2, five, text, 0),
      kind);
  mat_complex_split_t both{&number, &imaginary};
  add(file,
      Mat_VarCreate("complex", MAT_C_DOUBLE, MAT_T_DOUBLE, 2, one, &both,
                    MAT_F_COMPLEX),
      kind);
  matvar_t* inside[] = {
      Mat_VarCreate("", MAT_C_DOUBLE, MAT_T_DOUBLE, 2, one, &number, 0)};
  add(file, Mat_VarCreate("cell", MAT_C_CELL, MAT_T_CELL, 2, one, inside, 0),
      kind);
}

}  // namespace propagator::testing
