! The Fortran module: layouts, types, ranks, what is wrong, and the host's
! floating-point traps, with which it is compiled (-ffpe-trap).
!
!   fortran_test PLATES POINTS
!
! PLATES is a run of forecast/tiny, POINTS one of a PDE for u in x and t.
program fortran_test
  use, intrinsic :: ieee_arithmetic
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use propagator
  implicit none

  integer, parameter :: cases = 2, given = 3, frames = 16, nodes = 8
  type(pg_run) :: plates, points
  real(c_float), target :: first(cases, given, nodes, nodes), alpha(cases)
  real(c_float), target :: future(cases, frames, nodes, nodes)
  integer :: status

  call random_number(first)
  alpha = [0.03, 0.08]
  call plates%open(argument(1), status, device='cpu', precision='fp32', threads=1)
  call expect(status == PG_OK, 'a run of plates')
  call plates%apply([pg_array('fields', first), pg_array('alpha', alpha)], &
                    [pg_array('fields', future)], status)
  call expect(status == PG_OK, 'a forecast')
  call expect(all(abs(future(:, :given, :, :) - first) < 1e-6), 'the given frames')
  call expect(pg_last_error() == '', 'no error')

  call test_what_it_tells
  call test_reversed
  call test_float64
  call test_sections
  call test_ranks
  call test_traps
  call test_bad_arrays
  call test_bad_runs
  print '(a)', 'the Fortran module is good'

contains

  function argument(number) result(text)
    integer, intent(in) :: number
    character(len=:), allocatable :: text
    integer :: length
    call get_command_argument(number, length=length)
    allocate (character(len=length) :: text)
    call get_command_argument(number, text)
  end function

  subroutine expect(is_so, what)
    logical, intent(in) :: is_so
    character(len=*), intent(in) :: what
    if (is_so) return
    write (error_unit, '(4a)') 'expected ', what, '; last error: ', pg_last_error()
    error stop
  end subroutine

  ! That the last call failed so.
  subroutine expect_error(code, part)
    integer, intent(in) :: code
    character(len=*), intent(in) :: part
    call expect(status == code .and. index(pg_last_error(), part) > 0, &
                'the error "'//part//'"')
  end subroutine

  subroutine test_what_it_tells
    type(pg_port), allocatable :: ports(:)
    integer(c_int64_t), allocatable :: lengths(:)
    call plates%inputs(ports, status)
    call expect(status == PG_OK .and. size(ports) == 2, 'two inputs')
    call expect(ports(1)%name == 'fields' .and. ports(2)%name == 'alpha', 'their names')
    call expect(all(ports(1)%shape == [-1, -1, nodes, nodes]), 'the shape of plates')
    call expect(index(ports(1)%meaning, 'first 3 frames') > 0, 'a meaning')
    call plates%outputs(ports, status)
    call expect(all(ports(1)%shape == [-1, frames, nodes, nodes]), 'the shape of forecasts')
    call plates%output_shape([pg_array('fields', first), pg_array('alpha', alpha)], &
                             'fields', lengths, status)
    call expect(status == PG_OK, 'an output''s shape')
    call expect(all(lengths == [cases, frames, nodes, nodes]), 'that of two plates')
    call expect(len(pg_version()) > 0, 'a version')
  end subroutine

  ! The same numbers with their axes the other way round give the same bits.
  subroutine test_reversed
    real(c_float), target :: in(nodes, nodes, given, cases)
    real(c_float), target :: out(nodes, nodes, frames, cases)
    in = reshape(first, shape(in), order=[4, 3, 2, 1])
    call plates%apply([pg_array('fields', in, reversed=.true.), pg_array('alpha', alpha)], &
                      [pg_array('fields', out, reversed=.true.)], status)
    call expect(status == PG_OK, 'reversed axes')
    call expect(all(reshape(out, shape(future), order=[4, 3, 2, 1]) == future), &
                'the same forecast, reversed')
    future = 0
    call plates%apply([pg_array('fields', in, reversed=.true.), &
                       pg_array('alpha', alpha, reversed=.true.)], &
                      [pg_array('fields', future, reversed=.false.)], status)
    call expect(all(reshape(out, shape(future), order=[4, 3, 2, 1]) == future), &
                'one reversed and one not')
  end subroutine

  subroutine test_float64
    real(c_double), target :: in(cases, given, nodes, nodes), its_alpha(cases)
    real(c_double), target :: out(cases, frames, nodes, nodes)
    in = first
    its_alpha = alpha
    call plates%apply([pg_array('fields', in), pg_array('alpha', its_alpha)], &
                      [pg_array('fields', out)], status)
    call expect(status == PG_OK, 'float64')
    call expect(all(out == real(future, c_double)), 'the same forecast in float64')
  end subroutine

  ! Every other node of larger arrays; what lies between stays as it was.
  subroutine test_sections
    real(c_float), target :: in(cases, given, 2*nodes, 3*nodes)
    real(c_double), target :: out(cases, frames, 2*nodes, nodes)
    in = -1
    out = -1
    in(:, :, ::2, 2::3) = first
    call plates%apply([pg_array('fields', in(:, :, ::2, 2::3)), pg_array('alpha', alpha)], &
                      [pg_array('fields', out(:, :, 2::2, :))], status)
    call expect(status == PG_OK, 'sections')
    call expect(all(out(:, :, 2::2, :) == real(future, c_double)), 'the same in sections')
    call expect(all(out(:, :, ::2, :) == -1), 'nothing between')
  end subroutine

  ! The same points on a line, on a grid, and in more axes.
  subroutine test_ranks
    real(c_double), target :: x(24), t(24), u(24), line(24)
    real(c_double), target :: x2(6, 4), t2(6, 4), u2(6, 4), x3(2, 3, 4), t3(2, 3, 4), u3(2, 3, 4)
    real(c_double), target :: x6(2, 1, 3, 1, 2, 2), t6(2, 1, 3, 1, 2, 2), u6(2, 1, 3, 1, 2, 2)
    real(c_float), target :: single(24)
    call points%open(argument(2), status, device='cpu', threads=1)
    call expect(status == PG_OK, 'a run of points')
    call random_number(x)
    call random_number(t)
    call points%apply([pg_array('x', x), pg_array('t', t)], [pg_array('u', u)], status)
    call expect(status == PG_OK, 'points on a line')
    x2 = reshape(x, shape(x2))
    t2 = reshape(t, shape(t2))
    call points%apply([pg_array('t', t2), pg_array('x', x2)], [pg_array('u', u2)], status)
    call expect(status == PG_OK, 'points on a grid')
    line = pack(u2, .true.)
    call expect(all(abs(line - u) < 1e-12), 'the same on a grid')
    x3 = reshape(x, shape(x3))
    t3 = reshape(t, shape(t3))
    call points%apply([pg_array('x', x3, reversed=.true.), pg_array('t', t3, reversed=.true.)], &
                      [pg_array('u', u3, reversed=.true.)], status)
    call expect(status == PG_OK, 'points on three axes')
    line = pack(u3, .true.)
    call expect(all(abs(line - u) < 1e-12), 'the same on three axes')
    x6 = reshape(x, shape(x6))
    t6 = reshape(t, shape(t6))
    call points%apply([pg_array('x', x6), pg_array('t', t6)], [pg_array('u', u6)], status)
    call expect(status == PG_OK, 'points on six axes')
    line = pack(u6, .true.)
    call expect(all(abs(line - u) < 1e-12), 'the same on six axes')
    single = 0
    call points%apply([pg_array('x', x), pg_array('t', t)], [pg_array('u', single)], status)
    call expect(all(abs(single - u) < 1e-6), 'the same in float32')
    call points%apply([pg_array('x', x), pg_array('t', t)], [pg_array('u', u(:23))], status)
    call expect_error(PG_USAGE, "room for 'u' of shape (24), got (23)")
    call points%apply([pg_array('x', x(:0)), pg_array('t', t(:0))], [pg_array('u', u(:0))], &
                      status)
    call expect(status == PG_USAGE, 'an error without points')
    call points%close(status)
    call expect(status == PG_OK, 'the end of a run')
  end subroutine

  ! Traps and rounding of this program are as before, and its flags are quiet.
  subroutine test_traps
    real(c_float), target :: out(cases, frames, nodes, nodes)
    type(ieee_round_type) :: rounding
    logical :: traps(3), flags(5)
    call ieee_set_flag(ieee_all, .false.)
    call ieee_set_rounding_mode(ieee_up)
    call plates%apply([pg_array('fields', first), pg_array('alpha', alpha)], &
                      [pg_array('fields', out)], status)
    call ieee_get_rounding_mode(rounding)
    call ieee_set_rounding_mode(ieee_nearest)
    call expect(status == PG_OK, 'a forecast among traps')
    call expect(rounding == ieee_up, 'the rounding as before')
    call expect(all(out == future), 'the same bits, whatever the rounding')
    call ieee_get_halting_mode(ieee_usual, traps)
    call expect(all(traps), 'the traps as before')
    call ieee_get_flag(ieee_all, flags)
    call expect(.not. any(flags), 'no flag raised')
  end subroutine

  subroutine test_bad_arrays
    real(c_float), target :: bad(cases, given, nodes, nodes), below(cases)
    call plates%apply([pg_array('field', first), pg_array('alpha', alpha)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, "got 'field'")
    call expect(index(pg_last_error(), 'hint: did you mean fields') > 0, 'a hint')
    call plates%apply([pg_array('fields', first)], [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, "expected an input 'alpha', got none")
    call plates%apply([pg_array('fields', first, reversed=.true.), pg_array('alpha', alpha)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'got (8, 8, 3, 2)')
    call plates%apply([pg_array('fields', first(:, :2, :, :)), pg_array('alpha', alpha)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'at least 3, 8, 8), got (2, 2, 8, 8)')
    call plates%apply([pg_array('fields', first(:, given:1:-1, :, :)), pg_array('alpha', alpha)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'expected strides of 0 or more')
    call plates%apply([pg_array('fields', first(1, 1, :, :)), pg_array('alpha', alpha)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'got (8, 8)')
    call plates%apply([pg_array('fields', first), pg_array('alpha', alpha(1))], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, "expected 'alpha' of shape (2), got ()")
    call plates%apply([pg_array('fields', first), pg_array('alpha', alpha)], &
                      [pg_array('fields', future(:, 2:, :, :))], status)
    call expect_error(PG_USAGE, 'got (2, 15, 8, 8)')
    bad = first
    bad(2, 1, 3, 4) = ieee_value(1.0_c_float, ieee_quiet_nan)
    call plates%apply([pg_array('fields', bad), pg_array('alpha', alpha)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'case 1, frame 0, node (2, 3) is not a finite number')
    below = -alpha
    call plates%apply([pg_array('fields', first), pg_array('alpha', below)], &
                      [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'expected every alpha to be positive')
  end subroutine

  subroutine test_bad_runs
    type(pg_run) :: none
    type(pg_port), allocatable :: ports(:)
    call none%open('/nowhere', status)
    call expect_error(PG_FAILURE, 'no run at /nowhere')
    call none%open(argument(1), status, device='abacus')
    call expect_error(PG_USAGE, 'expected auto, cpu, cuda')
    call none%open(argument(1), status, precision='fp31')
    call expect_error(PG_USAGE, 'options.precision')
    call none%open(argument(1), status, threads=-1)
    call expect_error(PG_USAGE, 'got -1')
    call none%inputs(ports, status)
    call expect_error(PG_USAGE, 'expected an open run, got a null pointer')
    call expect(.not. allocated(ports), 'no ports')
    call none%close(status)
    call expect(status == PG_OK, 'nothing to close')
    none = plates  ! the same run
    call plates%close(status)
    call expect(status == PG_OK, 'the end of the run')
    call none%close(status)
    call expect_error(PG_USAGE, 'not open (any more)')
    call plates%apply([pg_array('fields', first)], [pg_array('fields', future)], status)
    call expect_error(PG_USAGE, 'got a null pointer')
  end subroutine
end program
