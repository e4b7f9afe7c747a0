#include "propagator/report/vtk.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "propagator/core/base64.h"
#include "propagator/core/error.h"

namespace propagator::report {
namespace {

constexpr const char* kByteOrder =
    std::endian::native == std::endian::little ? "LittleEndian" : "BigEndian";

// The nodes along an axis, from the smaller coordinate to the larger.
struct Grid {
  double origin = 0, spacing = 1;
};

Grid grid_of(const Axis& axis, int64_t nodes) {
  const double length = std::abs(axis.last - axis.first);
  if (nodes < 2 || length == 0) return {axis.first, 1};
  return {std::min(axis.first, axis.last),
          length / static_cast<double>(nodes - 1)};
}

// (R, C) with x and y rising. Axes without extent lie as they are drawn: row 0
// at the top.
torch::Tensor rising(torch::Tensor field, const Axis& x, const Axis& y) {
  if (y.first >= y.last) field = field.flip(0);
  if (x.first > x.last) field = field.flip(1);
  return field;
}

std::string point_array(const std::string& name, const torch::Tensor& field) {
  const auto values = field.to(torch::kFloat32).contiguous();
  const uint64_t size = values.nbytes();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(static_cast<const char*>(values.data_ptr()), size);
  return fmt::format(
      "<DataArray type=\"Float32\" Name=\"{}\" format=\"binary\">\n"
      "{}\n</DataArray>\n",
      name, base64(bytes));
}

// truth and prediction (R, C) as one image file.
std::string image_data(const torch::Tensor& truth,
                       const torch::Tensor& prediction, const Axis& x,
                       const Axis& y) {
  const int64_t rows = truth.size(0), columns = truth.size(1);
  const Grid along_x = grid_of(x, columns), along_y = grid_of(y, rows);
  const std::string extent =
      fmt::format("0 {} 0 {} 0 0", columns - 1, rows - 1);
  return fmt::format(
             "<?xml version=\"1.0\"?>\n"
             "<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"{}\" "
             "header_type=\"UInt64\">\n"
             "<ImageData WholeExtent=\"{}\" Origin=\"{} {} 0\" "
             "Spacing=\"{} {} 1\">\n"
             "<Piece Extent=\"{}\">\n"
             "<PointData Scalars=\"truth\">\n",
             kByteOrder, extent, along_x.origin, along_y.origin,
             along_x.spacing, along_y.spacing, extent) +
         point_array("truth", rising(truth, x, y)) +
         point_array("prediction", rising(prediction, x, y)) +
         point_array("error", rising(prediction - truth, x, y)) +
         "</PointData>\n<CellData/>\n</Piece>\n</ImageData>\n</VTKFile>\n";
}

}  // namespace

fs::path write_vtk(const FieldSeries& series, int64_t index,
                   const fs::path& folder) {
  if (fs::exists(folder)) {
    throw UsageError(folder.string() + " exists already",
                     "remove it, or choose another folder");
  }
  const auto in_float64 = [&](const torch::Tensor& fields) {
    return fields[index].detach().to(torch::kCPU, torch::kFloat64);
  };
  const auto truth = in_float64(series.truth);            // (T, R, C)
  const auto prediction = in_float64(series.prediction);  // (T, R, C)
  write_directory_atomically(folder, [&](const fs::path& inside) {
    std::string list = fmt::format(
        "<?xml version=\"1.0\"?>\n"
        "<VTKFile type=\"Collection\" version=\"1.0\" byte_order=\"{}\">\n"
        "<Collection>\n",
        kByteOrder);
    for (size_t t = 0; t < series.times.size(); ++t) {
      const auto frame = static_cast<int64_t>(t);
      const std::string name = fmt::format("frame_{:04}.vti", t);
      write_file(inside / name, image_data(truth[frame], prediction[frame],
                                           series.x, series.y));
      list += fmt::format("<DataSet timestep=\"{}\" part=\"0\" file=\"{}\"/>\n",
                          series.times[t], name);
    }
    list += "</Collection>\n</VTKFile>\n";
    write_file(inside / "series.pvd", list);
  });
  return folder / "series.pvd";
}

}  // namespace propagator::report
