/* Opens a trained run and asks its model, from C: every input is filled with
 * something of its shape, for a batch of 8 cases. */

#include <propagator/capi/propagator.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 8, MOST = 16 };

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, pg_last_error());
  return EXIT_FAILURE;
}

/* An array of `count` numbers that are all the same. */
static double *filled(size_t count, double value) {
  double *numbers = malloc(count * sizeof *numbers);
  for (size_t n = 0; numbers != NULL && n < count; ++n) numbers[n] = value;
  return numbers;
}

static size_t product(const int64_t *shape, int32_t rank) {
  size_t count = 1;
  for (int32_t k = 0; k < rank; ++k) count *= (size_t)shape[k];
  return count;
}

static void print(const char *way, const pg_tensor *tensor) {
  const double *numbers = tensor->data;
  const size_t count = product(tensor->shape, tensor->rank);
  double mean = 0;
  for (size_t n = 0; n < count; ++n) mean += numbers[n] / (double)count;
  printf("%s %s (", way, tensor->name);
  for (int32_t k = 0; k < tensor->rank; ++k) {
    printf("%s%lld", k > 0 ? ", " : "", (long long)tensor->shape[k]);
  }
  printf("): mean %.4g\n", mean);
}

int main(int argc, char **argv) {
  pg_options options = PG_OPTIONS;
  pg_run *run = NULL;
  const pg_port *in, *out;
  size_t in_count, out_count;
  pg_tensor inputs[MOST] = {{0}}, outputs[MOST] = {{0}};
  int64_t shapes[2 * MOST][PG_MAX_RANK];

  options.device = "cpu";
  if (pg_open(argc > 1 ? argv[1] : "runs/demo", &options, &run) != PG_OK) {
    return failed("pg_open");
  }
  if (pg_inputs(run, &in, &in_count) != PG_OK) return failed("pg_inputs");
  if (pg_outputs(run, &out, &out_count) != PG_OK) return failed("pg_outputs");
  if (in_count > MOST || out_count > MOST) return EXIT_FAILURE;

  for (size_t i = 0; i < in_count; ++i) {
    for (int32_t k = 0; k < in[i].rank; ++k) {
      shapes[i][k] = in[i].shape[k] < 0 ? CASES : in[i].shape[k];
    }
    inputs[i].name = in[i].name;
    inputs[i].shape = shapes[i];
    inputs[i].rank = in[i].rank;
    inputs[i].type = PG_FLOAT64;
    inputs[i].data = filled(product(shapes[i], in[i].rank), 0.5);
    if (inputs[i].data == NULL) return EXIT_FAILURE;
    print("in  ", &inputs[i]);
  }
  for (size_t i = 0; i < out_count; ++i) {
    int64_t *shape = shapes[in_count + i];
    if (pg_output_shape(run, inputs, in_count, out[i].name, shape,
                        &outputs[i].rank) != PG_OK) {
      return failed("pg_output_shape");
    }
    outputs[i].name = out[i].name;
    outputs[i].shape = shape;
    outputs[i].type = PG_FLOAT64;
    outputs[i].data = filled(product(shape, outputs[i].rank), 0);
    if (outputs[i].data == NULL) return EXIT_FAILURE;
  }
  if (pg_apply(run, inputs, in_count, outputs, out_count) != PG_OK) {
    return failed("pg_apply");
  }
  for (size_t i = 0; i < out_count; ++i) print("out ", &outputs[i]);

  for (size_t i = 0; i < in_count; ++i) free(inputs[i].data);
  for (size_t i = 0; i < out_count; ++i) free(outputs[i].data);
  return pg_close(run) == PG_OK ? EXIT_SUCCESS : failed("pg_close");
}
