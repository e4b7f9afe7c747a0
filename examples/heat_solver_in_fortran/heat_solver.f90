! A heat solver whose time loop takes its steps in two ways: by its own stencil,
! thirteen small ones, or by a surrogate that was trained on such plates, in one
! call.
!
!   propagator data generate forecast/tiny -o long.npz -s plate.frames=68 -s data.cases=100
!   python3 cut_windows.py long.npz windows.npz 16 13
!   propagator train forecast/tiny -s data.file=windows.npz -s train.max_steps=600 \
!     -s model.predicts=scaled_change -s model.scaling=case --name heat
!   heat_solver runs/heat
!
! Both begin with the same frames and go on from their own last ones, so that
! errors of the surrogate add up as they do in a solver. A model that is to go on
! from what it gave must have learned how plates go on, not only how they begin:
! hence the windows. It is compared with the stencil, and with doing nothing at
! all; then both are timed.
program heat_solver
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use propagator
  implicit none

  ! As in configs/forecast/tiny.yaml.
  integer, parameter :: rows = 8, columns = 8, given = 3, frames = 16
  integer, parameter :: new = frames - given  ! frames of a step
  integer, parameter :: steps = 4, last = given + steps*new
  integer, parameter :: plates = 200, timed = 2000
  real(c_float), parameter :: fourier = 0.1  ! diffusivity * dt / dx**2

  type(pg_run) :: run
  character(len=1024) :: folder
  ! Every frame of a plate, by the stencil and by the surrogate.
  real(c_float), target :: truth(1, last, rows, columns)
  real(c_float), target :: plate(1, last, rows, columns)
  real(c_float), target :: alpha(1) = 0.05
  real(c_double) :: model_error(steps) = 0, still_error(steps) = 0
  integer :: status, n, step, now

  folder = 'runs/heat'
  if (command_argument_count() > 0) call get_command_argument(1, folder)
  call run%open(folder, status, device='cpu', threads=1)
  call expect_ok(status)

  do n = 1, plates
    call draw(n, truth(1, 1, :, :))
    call stencil_steps(truth, 1, given)
    plate(:, :given, :, :) = truth(:, :given, :, :)
    do step = 1, steps  ! the time loop
      now = given + (step - 1)*new
      call stencil_steps(truth, now, now + new)
      call surrogate_step(plate, now)
      model_error(step) = model_error(step) + mean_square( &
                          plate(1, now + new, :, :) - truth(1, now + new, :, :))
      still_error(step) = still_error(step) + mean_square( &
                          truth(1, given, :, :) - truth(1, now + new, :, :))
    end do
  end do
  print '(a, *(i10))', 'mean square error after step:', [(step, step=1, steps)]
  print '(a, *(es10.2))', 'of the surrogate, chained:   ', model_error/plates
  print '(a, *(es10.2))', 'of a plate that stays still: ', still_error/plates

  call time_both
  call run%close(status)
  call expect_ok(status)
  if (.not. all(model_error < 0.1*still_error)) then
    error stop 'the surrogate is no good'
  end if

contains

  subroutine expect_ok(code)
    integer, intent(in) :: code
    if (code == PG_OK) return
    write (error_unit, '(a)') pg_last_error()
    error stop
  end subroutine

  pure real(c_double) function mean_square(difference)
    real(c_float), intent(in) :: difference(:, :)
    mean_square = sum(real(difference, c_double)**2)/size(difference)
  end function

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
  ! `first` to frame `end`.
  subroutine stencil_steps(field, first, end)
    real(c_float), intent(inout) :: field(:, :, :, :)
    integer, intent(in) :: first, end
    integer :: t, i, j
    do t = first, end - 1
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

  ! The same by the model: it continues the last frames up to `now`, which it
  ! gives again before the new ones.
  subroutine surrogate_step(field, now)
    real(c_float), intent(inout), target :: field(:, :, :, :)
    integer, intent(in) :: now
    integer :: first
    first = now - given + 1
    call run%apply([pg_array('fields', field(:, first:now, :, :)), &
                    pg_array('alpha', alpha)], &
                   [pg_array('fields', field(:, first:now + new, :, :))], status)
    call expect_ok(status)
  end subroutine

  ! A step of either goes over the same thirteen frames.
  subroutine time_both
    integer(int64) :: begin, middle, end, rate
    integer :: k
    call system_clock(begin, rate)
    do k = 0, timed - 1
      now = given + mod(k, steps)*new
      call stencil_steps(truth, now, now + new)
    end do
    call system_clock(middle)
    do k = 0, timed - 1
      call surrogate_step(plate, given + mod(k, steps)*new)
    end do
    call system_clock(end)
    print '(a, i9)', 'steps a second of the stencil:       ', &
      int(timed*rate/max(middle - begin, 1_int64))
    print '(a, i9)', 'steps a second of the surrogate:     ', &
      int(timed*rate/max(end - middle, 1_int64))
  end subroutine
end program
