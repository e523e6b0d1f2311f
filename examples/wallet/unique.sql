CREATE UNIQUE INDEX redemptions_once ON redemptions (coupon, account);
