! A heat solver that can take its steps in two ways: by its own stencil, thirteen
! small ones, or by a surrogate that was trained on such plates, in one call.
!
!   propagator train forecast/tiny
!   heat_solver runs/tiny
!
! Both continue the same plates from their first frames. The surrogate stands in
! for the stencil, so it is compared with it, and with doing nothing at all.
program heat_solver
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use propagator
  implicit none

  ! As in configs/forecast/tiny.yaml.
  integer, parameter :: rows = 8, columns = 8, given = 3, frames = 16
  integer, parameter :: plates = 200, timed = 2000
  real(c_float), parameter :: fourier = 0.1  ! diffusivity * dt / dx**2

  type(pg_run) :: run
  character(len=1024) :: folder
  real(c_float), target :: plate(1, frames, rows, columns)
  real(c_float), target :: answer(1, frames, rows, columns)
  real(c_float), target :: alpha(1) = 0.05
  real(c_double) :: model_error, still_error
  integer :: status, n

  folder = 'runs/tiny'
  if (command_argument_count() > 0) call get_command_argument(1, folder)
  call run%open(folder, status, device='cpu', threads=1)
  call expect_ok(status)

  model_error = 0
  still_error = 0
  do n = 1, plates
    call draw(n, plate(1, 1, :, :))
    call stencil_steps(plate, 1, frames)
    call surrogate_step(plate(:, :given, :, :), answer)
    model_error = model_error + &
                  sum((answer - plate)**2)/(plates*size(plate))
    still_error = still_error + &
                  sum((spread(plate(:, given, :, :), 2, frames - given) &
                       - plate(:, given + 1:, :, :))**2)/(plates*size(plate))
  end do
  print '(a, es9.2)', 'mean square error of the surrogate:  ', model_error
  print '(a, es9.2)', 'of a plate that stays as it was:     ', still_error

  call time_both
  call run%close(status)
  call expect_ok(status)
  if (.not. model_error < 0.1*still_error) error stop 'the surrogate is no good'

contains

  subroutine expect_ok(code)
    integer, intent(in) :: code
    if (code == PG_OK) return
    write (error_unit, '(a)') pg_last_error()
    error stop
  end subroutine

  ! One temperature inside and one on each edge, all at random.
  subroutine draw(seed, field)
    integer, intent(in) :: seed
    real(c_float), intent(out) :: field(:, :)
    real(c_float) :: random(5)
    integer(int64) :: state
    integer :: k
    state = 7919_int64*seed
    do k = 1, 5
      state = mod(1103515245_int64*state + 12345_int64, 2147483648_int64)
      random(k) = real(state, c_float)/2147483648.0
    end do
    field = random(1)
    field(:, 1) = random(2)
    field(:, columns) = random(3)
    field(1, :) = random(4)
    field(rows, :) = 0.1*random(5)
  end subroutine

  ! Explicit Euler and the five-point Laplacian, with fixed edges, from frame
  ! `first` to frame `last`.
  subroutine stencil_steps(field, first, last)
    real(c_float), intent(inout) :: field(:, :, :, :)
    integer, intent(in) :: first, last
    integer :: t, i, j
    do t = first, last - 1
      field(1, t + 1, :, :) = field(1, t, :, :)
      do j = 2, columns - 1
        do i = 2, rows - 1
          field(1, t + 1, i, j) = field(1, t, i, j) + fourier*( &
                                  field(1, t, i + 1, j) + field(1, t, i - 1, j) &
                                  + field(1, t, i, j + 1) + field(1, t, i, j - 1) &
                                  - 4*field(1, t, i, j))
        end do
      end do
    end do
  end subroutine

  ! The same by the model, into `field`, from its first frames.
  subroutine surrogate_step(first, field)
    real(c_float), intent(in), target :: first(:, :, :, :)
    real(c_float), intent(inout), target :: field(:, :, :, :)
    call run%apply([pg_array('fields', first), pg_array('alpha', alpha)], &
                   [pg_array('fields', field)], status)
    call expect_ok(status)
  end subroutine

  ! A step of either goes over the same thirteen frames.
  subroutine time_both
    integer(int64) :: begin, middle, end, rate
    integer :: k
    call system_clock(begin, rate)
    do k = 1, timed
      call stencil_steps(plate, given, frames)
    end do
    call system_clock(middle)
    do k = 1, timed
      call surrogate_step(plate(:, :given, :, :), answer)
    end do
    call system_clock(end)
    print '(a, i9)', 'steps a second of the stencil:       ', &
      int(timed*rate/max(middle - begin, 1_int64))
    print '(a, i9)', 'steps a second of the surrogate:     ', &
      int(timed*rate/max(end - middle, 1_int64))
  end subroutine
end program
