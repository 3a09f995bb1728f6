// The fetch of the clients that Orval generates: it has no setting of its own for the address of the service.
export async function request<Answer>(path: string, options: RequestInit & { base?: string } = {}): Promise<Answer> {
  const response = await fetch(`${options.base}${path}`, options);
  const text = await response.text();
  return { status: response.status, headers: response.headers, data: text && JSON.parse(text) } as Answer;
}
